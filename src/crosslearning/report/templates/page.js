"use strict";
const config = JSON.parse(document.getElementById("chart-config").textContent);
// Names that an axis cuts short are shown in full under the pointer.
function patch(spec) {
  for (const axis of (spec.axes ?? []).filter((each) => each.labelLimit)) {
    const own = axis.encode?.labels;
    const update = { ...own?.update, tooltip: { signal: "datum.label" } };
    axis.encode = { ...axis.encode, labels: { ...own, interactive: true, update } };
  }
  return spec;
}
// As SVG, colours may be CSS variables and follow the colour scheme. The interpreter needs no eval.
const options = { actions: false, renderer: "svg", ast: true, patch, config };
const drawn = [...document.querySelectorAll("figure.chart")].map((figure) =>
  vegaEmbed(figure.querySelector(".plot"), JSON.parse(figure.querySelector("script").textContent), options),
);
Promise.all(drawn).then(
  () => document.body.classList.add("drawn"),
  (error) => console.error(error),
);

function value(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent;
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

function sort(table, heading) {
  const column = heading.cellIndex;
  const first = heading.classList.contains("number") ? "descending" : "ascending";
  const other = { ascending: "descending", descending: "ascending" };
  const direction = other[heading.getAttribute("aria-sort")] ?? first;
  for (const each of heading.parentElement.cells) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction);
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
  const sign = direction === "ascending" ? 1 : -1;
  // Empty cells stay last either way.
  rows.sort(([a], [b]) => (a === "") - (b === "") || sign * compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable"))
  for (const button of table.querySelectorAll("thead button"))
    button.addEventListener("click", () => sort(table, button.closest("th")));
