/** The chart of the window, until a key closes it. */
import { contextChart, type WindowFigures } from "./context-chart.js";
import type { ContextShares } from "./context-model.js";
import { framed } from "./frame.js";
import type { Screen, Stage } from "./terminal.js";

export class ContextScreen implements Screen {
  readonly capturesViewportInput = true;
  constructor(
    private readonly shares: ContextShares,
    private readonly host: WindowFigures | undefined,
    private readonly stage: Stage,
  ) {}

  invalidate(): void {
    // Nothing is kept between two renders.
  }

  render(width: number): string[] {
    const { theme } = this.stage;
    const body = contextChart(this.shares, this.host, theme, width);
    return framed({ title: "Where the window goes", body, keys: ["esc close"] }, theme, width);
  }

  handleInput(data: string): void {
    const { pressed, close } = this.stage;
    if (pressed(data, "tui.select.cancel") || pressed(data, "tui.select.confirm")) close();
  }
}
