// The first view: both rows, who is on them, what moved and what it costs.
import { parts } from "./asking.js";
import { $, bar, make } from "./elements.js";
import * as rows from "./rows.js";
import { percent, t } from "./words.js";

export async function run(state, context, signal) {
  const options = { groups: context.groups, pictures: context.about.pictures };
  let before = null;
  for await (const part of parts("/api/search", context.question(), signal)) {
    if (part.part === "before") {
      before = part;
      showBefore(before, options, state);
    } else {
      showAfter(before, part, options, state);
    }
  }
  return summary(before);
}

function showBefore(before, options, state) {
  rows.show("before", before.images, { ...options, moved: new Set(), kind: "out" });
  $("after-title").textContent = t(`after-${state.method}`);
  $("alone").hidden = !before.trouble;
  if (before.trouble) $("alone").textContent = t("trouble", { reason: sentence(before.trouble) });
  $("shares-part").hidden = before.shares === null;
}

function showAfter(before, after, options, state) {
  if (after.trouble) {
    rows.empty("after");
    for (const id of ["change", "price", "seen"]) $(id).textContent = "";
    $("alone").hidden = false;
    $("alone").textContent = t("trouble", { reason: sentence(after.trouble) });
    if (before.shares) shares(before, null, options.groups, state);
    return;
  }
  rows.show("before", before.images, { ...options, moved: new Set(after.moved_out), kind: "out" });
  rows.show("after", after.images, { ...options, moved: new Set(after.moved_in), kind: "in" });
  $("after").scrollLeft = $("before").scrollLeft;
  if (before.left_alone || after.note) {
    $("alone").hidden = false;
    $("alone").textContent = before.left_alone ? after.said.change : t("not-reached", { reason: sentence(after.note) });
  }
  $("change").textContent = before.left_alone ? "" : after.said.change;
  $("price").textContent = after.said.price;
  const seen = after.certificate;
  $("seen").textContent = seen && state.by !== "model" ? t("seen-by-model", { shares: changes(seen.before, seen.after) }) : "";
  if (before.shares) shares(before, after, options.groups, state);
  before.said = after.said;
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

function changes(before, after) {
  return Object.keys(before).map((group) => t("share-change", { group, before: percent(before[group]), after: percent(after[group]) })).join(", ");
}

function shares(before, after, groups, state) {
  const heads = [t("shares-group"), t("before"), ...(after ? [t(`after-${state.method}`)] : []), t("shares-collection")];
  const head = make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text))));
  const lines = groups.map((group, i) => {
    const mark = before.collection[group];
    const cell = (share, now) => make("td", {}, make("div", { class: "share" }, bar(share, { now, mark }), make("span", {}, percent(share))));
    const name = make("th", { scope: "row" }, make("i", { class: `g${i % 7}` }), group);
    const cells = [cell(before.shares[group], false), ...(after ? [cell(after.shares[group], true)] : []), make("td", {}, percent(mark))];
    return make("tr", {}, name, ...cells);
  });
  $("shares").replaceChildren(make("table", {}, head, make("tbody", {}, ...lines)));
}

function summary(before) {
  if (!before?.said) return "";
  return [before.said.change, before.said.price].filter(Boolean).join(" ");
}
