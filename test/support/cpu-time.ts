/** Milliseconds that this process has computed while `action` ran: unlike the clock's, they are the same on a busy machine. */
export function cpuMs(action: () => unknown): number {
  const before = process.cpuUsage();
  action();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
