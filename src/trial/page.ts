/** A trial as one self-contained page without a script: its figures, and the moments to read. */
import { escapeHtml } from "../replay/chart.ts";
import { part } from "../replay/html.ts";
import { grouped } from "../text/text.ts";
import {
  agreementTable,
  describeKind,
  describeRun,
  describeShare,
  describeTrial,
  figuresTable,
  plain,
  type Table,
  type TrialResult,
} from "./report.ts";
import type { TriedMoment } from "./scores.ts";
import { CONDENSED, type Run } from "./types.ts";

const OWN_STYLE = `
.tile strong { font-size: 1.1rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .3rem; }
details { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; margin: .6rem 0; padding: .6rem .9rem; }
summary { cursor: pointer; font-weight: 600; }
details h3 { font-size: .9rem; margin: .9rem 0 .2rem; overflow-wrap: anywhere; }
details ul { margin: .2rem 0; padding-left: 1.2rem; font-size: .88rem; color: var(--soft); overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; margin: .3rem 0; padding: .5rem .7rem;
  border-left: 3px solid var(--rule); max-height: 22rem; overflow-y: auto; tab-size: 2; }
`;

/** The page. Everything that comes from the session is escaped. */
export function renderTrialPage(result: TrialResult): string {
  const { differences, agreements, figures } = result.scores;
  const [title = "", ...sentences] = describeTrial(result).map(escapeHtml);
  const shares = [
    ...Object.entries(agreements).map(([arm, { all }]) => [`same next change, ${arm}`, all] as const),
    ["old text exact, condensed", figures[CONDENSED]?.exact] as const,
    ["asked back, condensed", figures[CONDENSED]?.askedBack] as const,
    ["made something up, condensed", figures[CONDENSED]?.madeUp] as const,
  ];
  const tiles = shares.map(([label, value]) => {
    const text = typeof value === "object" ? describeShare(value, false) : "–";
    return `<div class="tile"><span>${shown(label)}</span><strong>${text}</strong></div>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${part("page.css")}${OWN_STYLE}</style>
</head>
<body>
<h1>${title}</h1>
${sentences.map((sentence) => `<p>${sentence}</p>`).join("\n")}
<div class="tiles">${tiles.join("")}</div>
<h2>Same next change, tool and file, as the first raw run</h2>
<p>Raw again is the model's own noise: what condensing does is the difference to it. In brackets: runs, and the interval of 95%.</p>
${tableOf(agreementTable(result))}
<h2>What the runs took, and what they did</h2>
${tableOf(figuresTable(result))}
<h2>Moments to read (${differences.length})</h2>
${differences.map(momentOf).join("\n") || "<p>No moment at which raw and condensed differ has come up.</p>"}
</body>
</html>
`;
}

function tableOf([head = [], ...rows]: Table): string {
  const headings = head.map((cell) => `<th scope="col">${shown(cell)}</th>`);
  const body = rows.map(([name = "", ...cells]) => {
    return `<tr><th scope="row">${shown(name)}</th>${cells.map((cell) => `<td>${shown(cell)}</td>`).join("")}</tr>`;
  });
  return `<div class="scroll"><table><thead><tr>${headings.join("")}</tr></thead><tbody>${body.join("\n")}</tbody></table></div>`;
}

function momentOf({ moment, runs }: TriedMoment): string {
  const size = `${grouped(moment.rawTokens)} tokens raw, ${grouped(moment.condensedTokens)} condensed`;
  const parts = [...runs].map(([arm, run]) => runOf(arm, run));
  return `<details><summary>Entry ${moment.index}: ${describeKind(moment)}; ${size}</summary>\n${parts.join("\n")}\n</details>`;
}

function runOf(arm: string, run: Run): string {
  const notes = [
    ...run.lookups.map(
      ({ tool, target, chars, known }) =>
        `${tool} ${target}: ${grouped(chars)} characters${known ? "" : ", not all of it recorded"}`,
    ),
    ...run.madeUp.map((line) => `made up: ${line}`),
  ].map((note) => `<li>${shown(note)}</li>`);
  const { outcome } = run;
  const text = outcome.kind === "call" ? outcome.args : outcome.kind === "text" ? outcome.text : "";
  const body = text.split("\n").map((line) => (/^[ \t]*/.exec(line)?.[0] ?? "") + shown(line));
  return `<h3>${shown(arm)}: ${shown(describeRun(run))}</h3><ul>${notes.join("")}</ul><pre>${body.join("\n")}</pre>`;
}

function shown(text: string): string {
  return escapeHtml(plain(text));
}
