/** Screens, widgets and the status line of a host's terminal. Where there is none, nothing of this does anything. */
import type { ExtensionUIContext, Theme } from "@mariozechner/pi-coding-agent";
import type { Component, Focusable, Keybinding } from "@mariozechner/pi-tui";
import type { HostSnapshot } from "../host/host.ts";
import { reasonOf } from "../text/text.ts";
import { wrapped } from "./paint.ts";

/** Rows that a widget may have; the hosts cut what is longer. */
export const MAX_WIDGET_LINES = 10;

/** Rows that a screen leaves to the conversation above it. */
const ROWS_LEFT = 6;
const MIN_ROWS = 10;

/** What a screen is given. */
export interface Stage {
  theme: Theme;
  /** Whether a key press is the one that the user has bound to an action. */
  pressed(data: string, action: Keybinding): boolean;
  /** The key that the user has bound to an action, as hints name it. */
  keyName(action: Keybinding): string;
  /** Rows that a screen may have now. */
  rows(): number;
  redraw(): void;
  close(): void;
}

/**
 * Something that takes the place of the editor until it closes itself.
 *
 * `render` gives lines of at most `width` columns, and a new array whenever anything has changed: the newer host knows a
 * change by the array.
 */
export interface Screen extends Component, Partial<Focusable> {
  /** Page keys scroll the screen, not the transcript behind it, where the newer host fills the terminal. */
  readonly capturesViewportInput: true;
  render(width: number): string[];
  handleInput(data: string): void;
}

/** Shows a screen and waits until it is closed; at once over where there is no terminal. */
export async function showScreen(
  { terminal }: Pick<HostSnapshot, "terminal">,
  make: (stage: Stage) => Screen,
): Promise<void> {
  if (!terminal) return;
  await terminal.custom<undefined>((tui, theme, keybindings, done) => {
    const stage: Stage = {
      theme,
      pressed: (data, action) => keybindings.matches(data, action),
      keyName: (action) => keybindings.getKeys(action).join("/"),
      rows: () => Math.max(MIN_ROWS, tui.terminal.rows - ROWS_LEFT),
      redraw: () => tui.requestRender(),
      close: () => done(undefined),
    };
    return guarded(make(stage), stage);
  });
}

/** The same screen, but an error in it is shown instead of reaching the host, which would end; then any key closes it. */
export function guarded(screen: Screen, stage: Pick<Stage, "theme" | "close">): Screen {
  let failure: string | undefined;
  const attempt = <T>(action: () => T, otherwise: T): T => {
    try {
      return action();
    } catch (error) {
      failure = reasonOf(error);
      return otherwise;
    }
  };
  const failed = (width: number) => wrapped(stage.theme.fg("error", `pruner: ${failure}. Any key goes back.`), width);
  return {
    capturesViewportInput: true,
    get focused() {
      return screen.focused ?? false;
    },
    set focused(value) {
      screen.focused = value;
    },
    invalidate: () => attempt(() => screen.invalidate(), undefined),
    render: (width) => {
      const lines = failure === undefined ? attempt(() => screen.render(width), []) : [];
      return failure === undefined ? lines : failed(width);
    },
    handleInput: (data) => {
      if (failure === undefined) attempt(() => screen.handleInput(data), undefined);
      else stage.close();
    },
  };
}

/** The part of the host's interface that a status line needs. */
export type Margins = Pick<ExtensionUIContext, "setStatus" | "theme">;
