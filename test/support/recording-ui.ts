/** A user interface that keeps the notices and does nothing else. */
import type { ExtensionUIContext } from "@mariozechner/pi-coding-agent";

export function recordingUi(notices: string[]): ExtensionUIContext {
  // The newer host copies it, so what is asked of it must be there by name.
  const known: Record<PropertyKey, unknown> = {
    notify: (message: string) => void notices.push(message),
    getAllThemes: () => [],
    // biome-ignore lint/suspicious/noThenProperty: nobody may take it for a promise.
    then: undefined,
  };
  const ui = new Proxy(known, { get: (target, name) => (name in target ? target[name] : () => undefined) });
  return ui as unknown as ExtensionUIContext;
}
