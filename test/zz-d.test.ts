import { test } from "bun:test";
import { readFileSync } from "node:fs";
import { walk } from "./support/session-walk.js";
for (const n of ["x3","x4"]) test(n, async () => { const {walk: plan} = JSON.parse(readFileSync(`test/fixtures/${n}.json`,"utf8")); console.log(JSON.stringify(plan.steps), JSON.stringify(plan.settings)); 
 for (const m of plan.messages) console.log(m.role, m.timestamp, m.stopReason ?? "", JSON.stringify(m.content).slice(0,700), m.toolCallId ?? "");
 let last: any; try { await walk(plan, {onRequest: r => { last = r; }}); } catch (e) { console.log(String(e).slice(0, 300)); }
 for (const m of last.sent) console.log("  SENT", m.role, m.timestamp, JSON.stringify(m.content).slice(0, 1500));
 });
