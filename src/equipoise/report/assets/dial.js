"use strict";
// The page of one audit: the method that is shown, and the dial, which computes what Python would for the kappa chosen.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const results = read("results"), data = read("data");
  const subject = results.subject, methods = results.methods, settings = results.settings;
  const groups = subject.attribute.groups;
  const number = (x) => (typeof x === "string" ? Infinity : x); // JSON has no infinity

  // --- Arrays ------------------------------------------------------------------------
  function decode(entry) {
    const bytes = Uint8Array.from(atob(entry.float32), (letter) => letter.charCodeAt(0));
    return { shape: entry.shape, values: new Float32Array(bytes.buffer) };
  }
  const arrays = Object.fromEntries(Object.entries(data.arrays).map(([name, entry]) => [name, decode(entry)]));
  const row = (array, i) => array.values.subarray(i * array.shape[1], (i + 1) * array.shape[1]);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;

  // --- The closed form, as geometry.py has it ----------------------------------------
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
    const prototypes = arrays[`${method}.prototypes`];
    return texts.map((t, i) => {
      const similar = Array.from({ length: prototypes.shape[0] }, (_, g) => {
        const along = dot(t.c, row(prototypes, g));
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
  const READINGS = { leakage_texts: 4, leakage_images: 4, self_loss_texts: 4, self_loss_images: 4, lean: 4, max_skew: 3 };
  function looked(method, place) {
    const dial = results.dials[method];
    return Object.fromEntries(Object.keys(READINGS).filter((name) => dial[name]).map((name) => [name, dial[name][place]]));
  }

  // --- The state: a method, a kappa, a prompt -------------------------------------------
  const slider = document.getElementById("kappa");
  const STEPS = 82; // 0, eighty-one kappas from 0.01 to 100, infinity
  const fine = (step) => (step === 0 ? 0 : step === STEPS ? Infinity : 10 ** (-2 + (4 * (step - 1)) / (STEPS - 2)));
  const chosen = (name) => Number(document.querySelector(`[data-choose="${name}"]`)?.value ?? 1);
  const state = { method: chosen("method"), turning: chosen("turning"), kappa: 1, entry: 0 };
  const grid = (method) => results.dials[method].kappas.map(number);
  const kappaAt = (step) => (exact ? fine(step) : grid(state.turning)[step]);
  const named = (kappa) => (kappa === Infinity ? "infinity" : String(Number(kappa.toPrecision(3))));
  const spot = (kappa) => (kappa === 0 ? -2.5 : kappa === Infinity ? 2.5 : Math.log10(kappa));
  function nearest(kappa) {
    const last = exact ? STEPS : grid(state.turning).length - 1;
    let best = 0;
    for (let step = 1; step <= last; step++) {
      if (Math.abs(spot(kappaAt(step)) - spot(kappa)) < Math.abs(spot(kappaAt(best)) - spot(kappa))) best = step;
    }
    return best;
  }
  let current = null;
  function turn() {
    current = exact ? compute(state.turning, state.kappa) : looked(state.turning, nearest(state.kappa));
  }

  // --- Readings and charts --------------------------------------------------------------
  const share = (value, low, high) => 100 * Math.min(Math.max((value - low) / (high - low), 0), 1);
  const VERDICT = results.verdict.measure;
  const axis = document.getElementById("follows");
  const range = (canvas) => ["lowX", "highX", "lowY", "highY"].map((name) => Number(canvas.dataset[name]));
  function place(chart, x, y) {
    const canvas = chart.querySelector(".canvas"), here = chart.querySelector(".here");
    const [lowX, highX, lowY, highY] = range(canvas);
    here.setAttribute("cx", `${share(x, lowX, highX)}%`);
    here.setAttribute("cy", `${100 - share(y, lowY, highY)}%`);
  }
  function readings() {
    document.getElementById("kappa-value").textContent = named(state.kappa);
    slider.setAttribute("aria-valuetext", `kappa ${named(state.kappa)}`);
    for (const cell of all("[data-dial]")) {
      const value = current[cell.dataset.dial];
      cell.textContent = value === undefined ? "as before" : value.toFixed(READINGS[cell.dataset.dial]);
    }
    place(document.getElementById("course"), spot(state.kappa), current[results.chance ? "max_skew" : "lean"]);
    for (const figure of all("[data-of-dial]")) {
      figure.hidden = Number(figure.dataset.ofDial) !== state.turning;
      if (figure.hidden) continue;
      const which = results.dials[state.turning].leakage_images ? "images" : "texts";
      place(figure, current[`self_loss_${which}`], current[`leakage_${which}`]);
    }
  }
  function follow() {
    const values = current.each?.[VERDICT];
    axis.closest("figure").hidden = !values;
    if (!values) return;
    const { low, high } = axis.dataset, most = results.chance?.max_skew.high;
    for (const dot of axis.querySelectorAll("[data-prompt]")) {
      const value = values[dot.dataset.prompt];
      dot.setAttribute("cx", `${share(value, Number(low), Number(high))}%`);
      dot.classList.toggle("leans", most === undefined || value > most);
      dot.classList.toggle("within", most !== undefined && value <= most);
    }
  }

  // --- Pictures -------------------------------------------------------------------------
  function groupOf(i) {
    const about = results.gallery.images[i];
    if (about) return about.group;
    return exact && arrays.codes ? arrays.codes.values[i] : -1;
  }
  function picture(i, place, isNew) {
    const item = document.createElement("li"), about = results.gallery.images[i], group = groupOf(i);
    item.dataset.image = i;
    item.dataset.group = group;
    item.classList.toggle("new", isNew);
    if (data.small[i]) {
      const image = document.createElement("img");
      image.src = data.small[i];
      image.alt = `Place ${place + 1}: ${about.name.split("/").pop()}${isNew ? ", not there before" : ""}`;
      item.append(image);
    } else {
      const gone = document.createElement("div");
      gone.className = "gone";
      item.append(gone);
    }
    item.append(group >= 0 ? groups[group] : "not known");
    return item;
  }
  function held(found) {
    const counts = groups.map((name, g) => [found.filter((i) => groupOf(i) === g).length, name]);
    return counts.map(([n, name]) => `${n} ${name}`).join(", ");
  }
  function galleries() {
    if (!results.gallery) return;
    for (const list of all(".pictures")) {
      const { entry, method } = list.dataset, about = results.gallery.prompts[entry], m = Number(method);
      const follows = current?.order && state.turning === m;
      const found = follows ? current.order[about.prompt].slice(0, results.gallery.shown) : about.found[m];
      list.closest(".entry").classList.toggle("away", Number(entry) !== state.entry);
      list.parentElement.querySelector(".held").textContent = held(found);
      if (m) list.parentElement.querySelector(".side").textContent = follows ? label(m) : methods[m].label;
      if (list.dataset.shown === String(found)) continue;
      list.dataset.shown = found;
      list.replaceChildren(...found.map((i, k) => picture(i, k, !about.found[0].includes(i))));
    }
  }
  const label = (m) => (state.kappa === number(methods[m].kappa) ? methods[m].label : `${methods[m].method}, kappa ${named(state.kappa)}`);

  // --- Together -------------------------------------------------------------------------
  function draw() {
    for (const part of all("[data-of-method]")) part.toggleAttribute("hidden", Number(part.dataset.ofMethod) !== state.method);
    if (slider) {
      turn();
      readings();
      follow();
      window.equipoise = { ...state, reading: Object.fromEntries(Object.keys(READINGS).map((name) => [name, current[name]])) };
    }
    galleries();
  }
  // the dial keeps its kappa when the method changes; a grid has the nearest that it has
  function settle() {
    slider.max = exact ? STEPS : grid(state.turning).length - 1;
    slider.value = nearest(state.kappa);
    if (!exact) state.kappa = kappaAt(Number(slider.value));
  }
  for (const select of all("[data-choose]")) {
    select.addEventListener("change", () => {
      state[select.dataset.choose] = Number(select.value);
      if (select.dataset.choose === "turning") settle();
      draw();
    });
  }
  if (slider) {
    state.kappa = number(methods[state.turning].kappa);
    slider.addEventListener("input", () => { state.kappa = kappaAt(Number(slider.value)); draw(); });
    settle();
  }
  draw();
})();
