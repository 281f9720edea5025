"use strict";
// What every page can do: explain its words, sort its tables, copy, download and print.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const results = JSON.parse(document.getElementById("results").textContent);
  const said = document.getElementById("said");
  document.documentElement.classList.add("scripted");
  for (const hidden of all(".choose.later[hidden], .downloads[hidden], .copy[hidden]")) hidden.hidden = false;

  // --- Words ----------------------------------------------------------------------------
  const tip = document.getElementById("tip");
  let explained = null;
  function explain(term) {
    explained = term;
    tip.textContent = document.getElementById(term.hash.slice(1)).textContent;
    tip.hidden = false;
    const at = term.getBoundingClientRect(), box = tip.getBoundingClientRect(), edge = 8;
    const left = Math.min(at.left, document.documentElement.clientWidth - box.width - edge);
    const above = at.top - box.height - edge;
    tip.style.left = `${Math.max(edge, left)}px`;
    tip.style.top = `${above > edge ? above : at.bottom + edge}px`;
  }
  function forget() {
    explained = null;
    tip.hidden = true;
  }
  for (const term of all(".term")) {
    term.addEventListener("pointerenter", () => explain(term));
    term.addEventListener("focus", () => explain(term));
    term.addEventListener("pointerleave", (event) => { if (event.relatedTarget !== tip) forget(); });
    term.addEventListener("blur", forget);
  }
  tip.addEventListener("pointerleave", forget);
  addEventListener("scroll", () => { if (explained) explain(explained); }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") forget(); });

  // --- Tables that sort -----------------------------------------------------------------
  function key(row, column) {
    const cell = row.cells[column], given = cell.dataset.sort;
    if (given === undefined) return cell.textContent.trim().toLowerCase();
    return given === "" ? NaN : Number(given);
  }
  function order(a, b) {
    if (typeof a === "string") return a.localeCompare(b);
    if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1; // what was not measured comes last
    return Number.isNaN(b) ? -1 : a - b;
  }
  function sort(table, header) {
    const column = header.cellIndex, body = table.tBodies[0];
    const down = header.getAttribute("aria-sort") === "ascending";
    const rows = [...body.rows].map((row) => ({ row, key: key(row, column) }));
    const missing = (entry) => Number.isNaN(entry.key);
    const known = rows.filter((entry) => !missing(entry)).sort((a, b) => order(a.key, b.key));
    if (down) known.reverse();
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...known.map((entry) => entry.row), ...rows.filter(missing).map((entry) => entry.row));
    shorten(table);
  }
  // a long table shows its first rows, in whatever order it is; paper has them all
  const FIRST = 12;
  function shorten(table) {
    [...table.tBodies[0].rows].forEach((row, place) => row.classList.toggle("rest", place >= FIRST));
  }
  for (const table of all("table[data-brief]")) {
    const count = table.tBodies[0].rows.length;
    if (count <= FIRST + 3) continue;
    const line = document.createElement("p"), button = document.createElement("button");
    line.className = "more";
    button.type = "button";
    button.setAttribute("aria-controls", table.id);
    const name = (brief) => {
      table.classList.toggle("brief", brief);
      button.setAttribute("aria-expanded", !brief);
      button.textContent = brief ? `Show all ${count} ${table.dataset.brief}` : `Show the first ${FIRST}`;
    };
    button.addEventListener("click", () => name(!table.classList.contains("brief")));
    name(true);
    shorten(table);
    line.append(button);
    table.after(line);
  }
  for (const table of all("table.sorts")) {
    for (const header of table.tHead.rows[0].cells) {
      if ("unsorted" in header.dataset) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      const note = [...header.children].filter((child) => child.matches(".note, .few"));
      for (const child of note) child.remove();
      // a link cannot stand in a button: the word alone does
      button.append(...[...header.childNodes].map((node) => (node.matches?.(".term") ? node.textContent : node)));
      header.replaceChildren(button, ...note);
      button.addEventListener("click", () => sort(table, header));
    }
  }

  // --- Copies ---------------------------------------------------------------------------
  function copyBySelection(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyBySelection(text); // where a page from the disk may not ask for the clipboard
    }
  }
  for (const button of all("[data-copy]")) {
    const words = button.firstChild, own = words.data;
    button.addEventListener("click", async () => {
      const done = await copy(document.getElementById(button.dataset.copy).textContent);
      words.data = done ? "Copied" : "Select and copy";
      said.textContent = words.data;
      button.focus();
      setTimeout(() => { words.data = own; }, 2000);
    });
  }

  // --- Downloads ------------------------------------------------------------------------
  const NUMBERS = ["value", "low", "high"];
  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const cell = (value) => (value === null || value === undefined ? "" : quoted(String(value)));
  const csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  function valuesOf(record) {
    const change = record.change ?? {};
    return [...NUMBERS.map((name) => record[name]), ...NUMBERS.map((name) => change[name])];
  }
  function rowsOfAudit(audit, name) {
    const found = [], labels = audit.methods.map((method) => method.label);
    for (const metric of audit.summary) {
      const measure = metric.section === "explicit, gated" ? `${metric.name}, with the gate` : metric.name;
      metric.values.forEach((record, m) => found.push([name, "all prompts", measure, labels[m], metric.n, metric.over, ...valuesOf(record)]));
    }
    for (const entry of audit.prompts) {
      for (const measure of ["lean", "max_skew", "ndkl"]) {
        (entry[measure] ?? []).forEach((record, m) => found.push([name, entry.prompt, measure, labels[m], "", "", ...valuesOf(record)]));
      }
      (entry.top ?? []).forEach((groups, m) => groups.forEach((record, g) => {
        const share = `share of ${audit.subject.attribute.groups[g]} in the first ${audit.settings.places}`;
        found.push([name, entry.prompt, share, labels[m], "", "", ...valuesOf(record)]);
      }));
    }
    return found;
  }
  function rowsOfAnything(value, place = "") {
    if (value === null || typeof value !== "object") return [];
    if (typeof value.value === "number" && "low" in value) return [[place, ...NUMBERS.map((name) => value[name])]];
    return Object.entries(value).flatMap(([name, inside]) => rowsOfAnything(inside, place ? `${place}.${name}` : name));
  }
  function table() {
    const audits = results.runs?.map((run) => [run.results, run.name]) ?? (results.verdict ? [[results, results.subject.attribute.name]] : null);
    if (!audits) return [["place", ...NUMBERS], ...rowsOfAnything(results)];
    const head = ["audit", "prompt", "measure", "method", "n", "over", ...NUMBERS, ...NUMBERS.map((name) => `change_${name}`)];
    return [head, ...audits.flatMap(([audit, name]) => rowsOfAudit(audit, name))];
  }
  const FILES = {
    json: () => ["results.json", "application/json", `${JSON.stringify(results, null, 1)}\n`],
    csv: () => ["results.csv", "text/csv", csv(table())],
  };
  for (const button of all("[data-download]")) {
    button.addEventListener("click", () => {
      const [name, type, text] = FILES[button.dataset.download]();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type }));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
  for (const button of all("[data-print]")) button.addEventListener("click", () => print());

  // --- Lines of a chart that can be hidden ----------------------------------------------
  for (const button of all("[data-toggle]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", shown);
      document.querySelector(`[data-series="${button.dataset.toggle}"]`).style.display = shown ? "" : "none";
    });
  }
})();
