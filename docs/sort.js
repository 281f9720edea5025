// A click on a heading sorts its table: by the first number in each cell, or by letters where there is none.
document.addEventListener("click", (event) => {
  const heading = event.target.closest("th");
  if (!heading) return;
  const table = heading.closest("table");
  const body = table.tBodies[0];
  const column = heading.cellIndex;
  const falls = heading.getAttribute("aria-sort") === "ascending";
  const text = (row) => row.cells[column].textContent.trim();
  const number = (row) => parseFloat((text(row).match(/[-+]?\d[\d,]*\.?\d*/) || [""])[0].replace(/,/g, ""));
  const numeric = [...body.rows].some((row) => !Number.isNaN(number(row)));
  const compare = (a, b) => {
    if (!numeric) return text(a).localeCompare(text(b));
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return falls ? y - x : x - y;
  };
  const rows = [...body.rows].sort(compare);
  if (!numeric && falls) rows.reverse();
  body.append(...rows);
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
});
