// Shows the values under the pointer; the page says everything else without it.
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
