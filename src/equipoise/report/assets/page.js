"use strict";
// The page of one audit: charts, galleries, and the dial, which computes what Python would for the kappa chosen.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const results = read("results"), data = read("data");
  const text = results.subject, methods = results.methods, settings = results.settings;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (x) => (typeof x === "string" ? Infinity : x); // JSON has no infinity
  const short = (prompt) => prompt.replace(/^(a|the) (photo|picture|image) of (a |an |the )?/i, "");

  // --- Arrays ---------------------------------------------------------------------------------------------------------------
  function decode(entry) {
    const bytes = Uint8Array.from(atob(entry.float32), (letter) => letter.charCodeAt(0));
    return { shape: entry.shape, values: new Float32Array(bytes.buffer) };
  }
  const arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, entry]) => [name, decode(entry)]));
  const row = (array, i) => array.values.subarray(i * array.shape[1], (i + 1) * array.shape[1]);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;

  // --- The closed form, as geometry.py has it -------------------------------------------------------------------------------
  const PURE = 1e-6; // a row with less outside the space is nothing but attribute, and stays as it is
  function turned(c, kappa) {
    const p2 = dot(c, c), o = Math.sqrt(Math.max(1 - p2, 0)), p = Math.sqrt(p2);
    if (o <= PURE) return { across: 1, along: 1, leakage: p, loss: 0 };
    const t2 = p2 / ((1 + o) * (1 + o));
    if (kappa === Infinity) return { across: 1 / o, along: 0, leakage: 0, loss: (2 * t2) / (1 + t2) };
    const k = kappa * (1 + t2), root = Math.sqrt(k) * Math.sqrt(4 + k), g = 2 / (2 + k + root), x2 = t2 * g * g;
    const along = (g * (1 + t2)) / (1 + x2), y = (k + root) / (2 + k + root) / (1 + t2 * g), y2 = t2 * y * y;
    return { across: (1 - x2) / (1 + x2) / o, along, leakage: p * along, loss: (2 * y2) / (1 + y2) };
  }
  const same = { across: 1, along: 1 };

  function rows(name, method, kappa) {
    const array = arrays[`${method}.${name}`], changed = results.dials[method].changes.includes(name.slice(0, -1));
    return Array.from({ length: array.shape[0] }, (_, i) => {
      const c = row(array, i);
      return { c, ...(changed ? turned(c, kappa) : same) };
    });
  }

  function leans(method, texts) {
    const groups = arrays[`${method}.prototypes`];
    return texts.map((t, i) => {
      const similar = Array.from({ length: groups.shape[0] }, (_, g) => {
        const along = dot(t.c, row(groups, g));
        return t.across * (row(arrays.text_group, i)[g] - along) + t.along * along;
      });
      const total = similar.reduce((a, b) => a + b, 0), n = similar.length;
      return similar.map((x) => (x * n - total) / (n - 1));
    });
  }

  function ranked(method, texts, images) {
    const scores = arrays.scores, count = images.length;
    return texts.map((t, j) => {
      const values = new Float64Array(count);
      for (let i = 0; i < count; i++) {
        const e = images[i], along = dot(e.c, t.c);
        values[i] = e.across * t.across * (scores.values[i * scores.shape[1] + j] - along) + e.along * t.along * along;
      }
      return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
    });
  }

  function skew(order) {
    const codes = arrays.codes.values, shares = results.chance.top.map((one) => one.share), counts = shares.map(() => 0);
    let places = 0;
    for (const i of order) {
      if (codes[i] < 0) continue;
      counts[codes[i]] += 1;
      if (++places === settings.m) break;
    }
    return Math.max(...counts.map((n, g) => (n ? Math.log(n / places / shares[g]) : -Infinity)));
  }

  const exact = Object.keys(arrays).length > 0 && settings.exact_dial;
  function compute(method, kappa) {
    const dial = results.dials[method], texts = rows("texts", method, kappa), changed = dial.changes;
    const lean = leans(method, texts), found = { lean: mean(lean.map((l) => Math.max(...l))), leans: lean };
    const groups = text.attribute.groups;
    found.each = { lean: results.prompts.map((p, i) => lean[i][groups.indexOf(p.towards)]) };
    if (changed.includes("text")) Object.assign(found, { leakage_texts: mean(texts.map((t) => t.leakage)), self_loss_texts: mean(texts.map((t) => t.loss)) });
    if (!arrays.scores) return found;
    const images = rows("images", method, kappa);
    if (changed.includes("image")) Object.assign(found, { leakage_images: mean(images.map((t) => t.leakage)), self_loss_images: mean(images.map((t) => t.loss)) });
    found.order = ranked(method, texts, images);
    found.each.max_skew = found.order.map(skew);
    found.max_skew = mean(found.each.max_skew);
    return found;
  }
  function looked(method, place) {
    const dial = results.dials[method], names = ["leakage_texts", "self_loss_texts", "leakage_images", "self_loss_images", "lean", "max_skew"];
    return Object.fromEntries(names.filter((name) => dial[name]).map((name) => [name, dial[name][place]]));
  }

  // --- The dial's state -----------------------------------------------------------------------------------------------------
  const slider = document.getElementById("kappa");
  const chosen = () => Number(document.querySelector('input[name="turning"]:checked')?.value ?? -1);
  const STEPS = 82; // 0, eighty-one kappas from 0.01 to 100, infinity
  const fine = (step) => (step === 0 ? 0 : step === STEPS ? Infinity : 10 ** (-2 + (4 * (step - 1)) / (STEPS - 2)));
  const kappaAt = (step) => (exact ? fine(step) : number(results.dials[chosen()].kappas[step]));
  const named = (kappa) => (kappa === Infinity ? "infinity" : String(Number(kappa.toPrecision(3))));
  function stepOf(kappa) {
    const last = Number(slider.max), steps = Array.from({ length: last + 1 }, (_, i) => i);
    if (kappa === 0) return 0;
    if (kappa === Infinity) return last;
    return steps.slice(1, last).reduce((best, i) => (Math.abs(Math.log(kappaAt(i) / kappa)) < Math.abs(Math.log(kappaAt(best) / kappa)) ? i : best), 1);
  }
  const DIGITS = { leakage_texts: 4, leakage_images: 4, self_loss_texts: 4, self_loss_images: 4, lean: 4, max_skew: 3 };
  let current = null;
  function turn(given) {
    const method = chosen(), step = Number(slider.value), kappa = given ?? kappaAt(step);
    current = { method, kappa, ...(exact ? compute(method, kappa) : looked(method, step)) };
    document.getElementById("kappa-value").textContent = named(kappa);
    slider.setAttribute("aria-valuetext", `kappa ${named(kappa)}`);
    for (const cell of document.querySelectorAll("[data-dial]")) {
      const value = current[cell.dataset.dial];
      cell.textContent = value === undefined ? "as before" : value.toFixed(DIGITS[cell.dataset.dial]);
    }
    window.equipoise = { kappa, step, reading: Object.fromEntries(Object.keys(DIGITS).map((name) => [name, current[name]])) };
  }

  // --- Charts ---------------------------------------------------------------------------------------------------------------
  const COLOURS = ["--before", "--accent", "--second", "--third"], MARKS = ["circle-open", "circle", "diamond", "square", "triangle-up", "cross"];
  const colour = (i) => style(COLOURS[Math.min(i, COLOURS.length - 1)]);
  const config = { displayModeBar: false, responsive: true, staticPlot: false };
  const axis = (title, more = {}) => ({ title: { text: title, standoff: 8 }, gridcolor: style("--line"), zerolinecolor: style("--line"), automargin: true, fixedrange: true, ...more });
  const layout = (more) => ({
    font: { family: "system-ui, sans-serif", size: 12, color: style("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 8, t: 8, b: 40 }, showlegend: false, hoverlabel: { bgcolor: style("--wash"), font: { color: style("--ink") } }, ...more,
  });
  function plot(id, traces, height, more) {
    document.getElementById(id).style.height = `${height}px`;
    Plotly.react(id, traces, layout({ height, ...more }), config);
  }
  const measure = () => document.querySelector('input[name="measure"]:checked')?.value ?? "lean";
  const MOST = 40;

  function dumbbell() {
    const key = measure(), all = results.prompts;
    const order = all.map((_, i) => i).sort((a, b) => all[b][key][0].value - all[a][key][0].value).slice(0, MOST).reverse();
    const brief = order.map((i) => short(all[i].prompt)), apart = new Set(brief).size === brief.length;
    const names = apart ? brief : order.map((i) => all[i].prompt); // two prompts of one name would share a row
    const value = (i, m) => (current && current.method === m && current.each?.[key] ? current.each[key][i] : all[i][key][m].value);
    const rods = { x: [], y: [], mode: "lines", line: { color: style("--line"), width: 2 }, hoverinfo: "skip", showlegend: false };
    order.forEach((i, k) => {
      const values = methods.map((_, m) => value(i, m));
      rods.x.push(Math.min(...values), Math.max(...values), null);
      rods.y.push(names[k], names[k], null);
    });
    const traces = methods.map((method, m) => ({
      x: order.map((i) => value(i, m)), y: names, mode: "markers", name: m ? label(m) : "before", type: "scatter",
      marker: { color: colour(m), symbol: MARKS[m % MARKS.length], size: 9, line: { width: m ? 0 : 2 } }, hovertemplate: "%{y}: %{x:.4f}<extra>%{fullData.name}</extra>",
    }));
    const band = key === "max_skew" ? [{ type: "rect", xref: "x", yref: "paper", x0: results.chance.max_skew.low, x1: results.chance.max_skew.high, y0: 0, y1: 1, fillcolor: style("--band"), line: { width: 0 }, layer: "below" }] : [];
    const title = key === "max_skew" ? `MaxSkew@${settings.m}` : "lean";
    plot("dumbbell", [rods, ...traces], 90 + 21 * names.length, {
      shapes: band, showlegend: true, legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
      margin: { l: 8, r: 12, t: 36, b: 40 }, xaxis: axis(title, { rangemode: "tozero" }), yaxis: axis("", { type: "category", showgrid: false, tickfont: { size: 11 } }),
    });
  }
  const label = (m) => (current && current.method === m && current.kappa !== number(methods[m].kappa) ? `${methods[m].method}, kappa ${named(current.kappa)}` : methods[m].label);

  function front() {
    const m = current.method, dial = results.dials[m], which = dial.leakage_images ? "images" : "texts";
    const x = dial[`self_loss_${which}`], y = dial[`leakage_${which}`], names = dial.kappas.map((k) => `kappa ${named(number(k))}`);
    const line = { x, y, text: names, mode: "lines+markers", line: { color: colour(m), shape: "spline", width: 2 }, marker: { size: 5, color: colour(m) }, hovertemplate: "%{text}<br>loss %{x:.4f}, leakage %{y:.4f}<extra></extra>" };
    const here = { x: [current[`self_loss_${which}`]], y: [current[`leakage_${which}`]], mode: "markers", marker: { size: 14, color: style("--paper"), line: { color: style("--ink"), width: 3 } }, hoverinfo: "skip" };
    plot("front", [line, here], 300, { xaxis: axis(`self-utility loss of ${which}`, { rangemode: "tozero", nticks: 5 }), yaxis: axis(`leakage of ${which}`, { rangemode: "tozero" }) });
  }
  function course() {
    const key = results.chance ? "max_skew" : "lean", traces = [];
    const place = (kappa) => (kappa === 0 ? -2.5 : kappa === Infinity ? 2.5 : Math.log10(kappa));
    results.dials.forEach((dial, m) => {
      if (!dial) return;
      const x = dial.kappas.map((k) => place(number(k)));
      traces.push({ x, y: dial[key], mode: "lines+markers", name: methods[m].method, line: { color: colour(m), width: m === current.method ? 3 : 1.5 }, marker: { size: 5, symbol: MARKS[m % MARKS.length] }, text: dial.kappas.map((k) => named(number(k))), hovertemplate: "kappa %{text}: %{y:.4f}<extra>%{fullData.name}</extra>" });
    });
    traces.push({ x: [place(current.kappa)], y: [current[key]], mode: "markers", marker: { size: 14, color: style("--paper"), line: { color: style("--ink"), width: 3 } }, hoverinfo: "skip", showlegend: false });
    const floor = results.chance ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: results.chance.mean_max_skew.value, y1: results.chance.mean_max_skew.value, line: { color: style("--soft"), dash: "dot", width: 1.5 } }] : [];
    const ticks = { tickvals: [-2.5, -2, -1, 0, 1, 2, 2.5], ticktext: ["0", "0.01", "0.1", "1", "10", "100", "∞"] };
    plot("course", traces, 300, { shapes: floor, showlegend: traces.length > 2, legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 }, xaxis: axis("kappa", ticks), yaxis: axis(key === "lean" ? "mean lean" : "mean skew", { rangemode: "tozero" }) });
  }

  // --- Galleries ------------------------------------------------------------------------------------------------------------
  function picture(i, place) {
    const item = document.createElement("li"), about = results.gallery.images[i];
    const group = about && about.group >= 0 ? text.attribute.groups[about.group] : exact && arrays.codes && arrays.codes.values[i] >= 0 ? text.attribute.groups[arrays.codes.values[i]] : "not known";
    item.dataset.image = i;
    item.dataset.group = text.attribute.groups.indexOf(group);
    if (data.small[i]) {
      const image = document.createElement("img");
      image.src = data.small[i];
      image.alt = `Place ${place + 1}: ${about.name.split("/").pop()}`;
      item.append(image);
    } else {
      const gone = document.createElement("div");
      gone.className = "gone";
      item.append(gone);
    }
    item.append(group);
    return item;
  }
  function galleries() {
    if (!results.gallery) return;
    for (const list of document.querySelectorAll(".pictures")) {
      const entry = results.gallery.prompts[list.dataset.entry], m = Number(list.dataset.method);
      const follows = current && current.method === m && current.order;
      const found = follows ? current.order[entry.prompt].slice(0, results.gallery.shown) : entry.found[m];
      // The shares beside a row's name are those at the method's own kappa.
      list.parentElement.querySelector(".held").hidden = Boolean(follows) && current.kappa !== number(methods[m].kappa);
      if (list.dataset.shown === String(found)) continue;
      list.dataset.shown = found;
      list.replaceChildren(...found.map(picture));
    }
  }

  // --- Together -------------------------------------------------------------------------------------------------------------
  function draw() {
    dumbbell();
    if (current) { front(); course(); }
    galleries();
  }
  function begin(kappa) {
    if (!exact) slider.max = results.dials[chosen()].kappas.length - 1;
    slider.value = stepOf(kappa); // the nearest; the method's own kappa is what is shown
    turn(exact ? kappa : undefined);
    draw();
  }
  if (slider) {
    slider.addEventListener("input", () => { turn(); draw(); });
    for (const radio of document.querySelectorAll('input[name="turning"]')) radio.addEventListener("change", () => begin(number(methods[chosen()].kappa)));
    begin(number(methods[chosen()].kappa));
  } else draw();
  for (const radio of document.querySelectorAll('input[name="measure"]')) radio.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
})();
