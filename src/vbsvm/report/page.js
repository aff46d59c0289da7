"use strict";
// Tables are sorted by a click on a header: once upwards, again downwards. What has no value stays at the end.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => {
        const cell = row.cells[column];
        return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
      };
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const numbers = [x, y].filter((one) => typeof one === "number").length;
        if (numbers === 2) return down ? y - x : x - y;
        if (numbers === 1) return typeof x === "number" ? -1 : 1;
        return (down ? -1 : 1) * x.localeCompare(y, "en", { numeric: true });
      };
      const body = table.tBodies[0];
      body.append(...Array.from(body.rows).sort(compare));
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
// Tables that are wider than their box say so.
const mark = () => {
  for (const box of document.querySelectorAll(".box")) box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
};
mark();
addEventListener("resize", mark);
for (const folded of document.querySelectorAll("details")) folded.addEventListener("toggle", mark);
