/** Style and script of the page that `--html` writes; nothing in them is fetched from anywhere. */

export const STYLE = `
:root { color-scheme: light dark; --paper: #fbfaf8; --card: #ffffff; --ink: #1d1f23; --soft: #646a73; --rule: #dcdfe4;
  --s0: #8a8f98; --s1: #1769c4; --s2: #b4540a; --s3: #2f7d3b; --s4: #7d3fb0; --s5: #a8214f; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --card: #1c1f25; --ink: #e7e9ed; --soft: #9aa1ac;
  --rule: #333843; --s0: #8e949e; --s1: #6cb0ff; --s2: #ffa657; --s3: #7ccf86; --s4: #c79bff; --s5: #ff8fb2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .4rem 0; color: var(--soft); overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .7rem .9rem; }
.tile span { display: block; font-size: .8rem; color: var(--soft); }
.tile strong { font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .5rem 0; padding: 0; list-style: none; font-size: .9rem; }
.legend i { display: inline-block; width: 1.4rem; height: 0; border-top: 3px solid var(--c); margin-right: .45rem; vertical-align: .25em; }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); } .s4 { --c: var(--s4); } .s5 { --c: var(--s5); }
.chart { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; margin: 1rem 0; padding: .9rem 1rem .6rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
.body { display: grid; grid-template-columns: 4.2rem 1fr; grid-template-rows: clamp(11rem, 32vw, 19rem) 1.5rem; }
.plot { position: relative; cursor: crosshair; }
.plot svg { width: 100%; height: 100%; display: block; overflow: visible; }
.plot .cursor { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--soft); pointer-events: none; }
.y, .x { position: relative; font-size: .75rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.y span { position: absolute; right: .5rem; transform: translateY(50%); white-space: nowrap; }
.x { grid-column: 2; } .x span { position: absolute; top: .3rem; transform: translateX(-50%); }
.x span:first-child { transform: none; } .x span:last-child { transform: translateX(-100%); }
.grid { stroke: var(--rule); stroke-width: 1; vector-effect: non-scaling-stroke; }
.line { fill: none; stroke: var(--c); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.compaction { stroke: var(--c); stroke-width: 1.5; stroke-dasharray: 5 4; vector-effect: non-scaling-stroke; }
.readout { min-height: 1.5em; margin: 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
.lanes { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; margin: 1rem 0; padding: .9rem 1rem .7rem; }
.lane { display: grid; grid-template-columns: 4.2rem 1fr; margin: .35rem 0; }
.lane-name { grid-column: 2; font-size: .8rem; color: var(--soft); overflow-wrap: anywhere; }
.lane-body { grid-column: 2; position: relative; height: 1rem; border-bottom: 1px solid var(--rule); }
.lane-body i { position: absolute; bottom: 0; width: 2px; height: .6rem; margin-left: -1px; background: var(--c); }
.lane-body b { position: absolute; bottom: 0; width: .6rem; height: .6rem; margin-left: -.3rem; background: var(--c); transform: translateY(-.25rem) rotate(45deg); }
.lane-body u { position: absolute; bottom: .65rem; width: .3rem; height: .3rem; margin-left: -.15rem; border-radius: 50%; background: var(--c); }
.lead { font-size: 1.1rem; color: var(--ink); } .axis { font-weight: 400; font-size: .8rem; color: var(--soft); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .4rem .9rem; text-align: right; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
th:first-child { text-align: left; font-weight: 400; color: var(--soft); }
thead th { overflow-wrap: anywhere; } tr:last-child > * { border-bottom: 0; }
`;

/** Shows the values under the pointer; the page says everything else without it. */
export const SCRIPT = `
const { names, at, charts } = JSON.parse(document.getElementById("series").textContent);
for (const plot of document.querySelectorAll(".plot")) {
  const { values, unit, digits } = charts[plot.dataset.chart];
  const cursor = plot.querySelector(".cursor");
  const readout = plot.closest("figure").querySelector(".readout");
  const format = (value) => unit + value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const index = Math.round(part * (at.length - 1));
    cursor.hidden = false;
    cursor.style.left = (at.length > 1 ? index / (at.length - 1) : 0.5) * 100 + "%";
    const shown = names.map((name, i) => name + " " + format(values[i][index] ?? 0));
    readout.textContent = "Request " + (index + 1) + ", " + new Date(at[index]).toLocaleString() + ": " + shown.join("; ");
  });
  plot.addEventListener("pointerleave", () => { cursor.hidden = true; readout.textContent = ""; });
}
`;
