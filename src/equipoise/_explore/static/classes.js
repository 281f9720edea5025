// The third view: type names of classes, and see who is put where.
import { parts } from "./asking.js";
import { $, bar, make } from "./elements.js";
import { tile } from "./rows.js";
import { percent, t } from "./words.js";

export async function run(state, context, signal) {
  const texts = [...new Set(state.classes.split(",").map((name) => name.trim()).filter(Boolean))].slice(0, context.about.most_texts);
  const method = context.about.class_methods.includes(state.method) ? state.method : context.about.class_methods[0];
  $("class-method").textContent = method === state.method ? "" : t("balanced-is-for-search");
  if (texts.length < 2) {
    $("class-table").replaceChildren(make("p", {}, t("classes-few")));
    return t("classes-few");
  }
  let before = null;
  for await (const part of parts("/api/classes", { ...context.controls(), method, texts }, signal)) {
    if (part.trouble) throw new Error(part.trouble);
    if (part.part === "before") before = part;
    show(before, part, context.about.pictures);
  }
  return "";
}

function show(before, after, pictures) {
  const heads = ["classes-class", "classes-images", "shares-group", "classes-pictures"].map((key) => make("th", { scope: "col" }, t(key)));
  const lines = before.classes.map((old, i) => {
    const now = after.classes[i];
    const few = now.shown.map((image, place) => make("li", {}, tile(image, place + 1, { groups: before.groups, pictures })));
    const count = old.images === now.images ? String(old.images) : `${old.images} → ${now.images}`;
    return make("tr", {}, make("th", { scope: "row" }, old.name), make("td", {}, count), make("td", {}, spread(old, now, before.groups)), make("td", {}, make("ul", { class: "few scroll" }, ...few)));
  });
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
  $("class-table").replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("classes-title") }, table));
}

function spread(old, now, groups) {
  const part = make("div", { class: "class-shares" });
  if (old.shares === null) return part;
  for (const group of groups) {
    const told = t("classes-share", { group, before: percent(old.shares[group]), after: percent(now.shares[group]) });
    part.append(make("span", { "aria-hidden": "true" }, group), make("div", { class: "pair" }, bar(old.shares[group]), bar(now.shares[group], { now: true })), make("span", {}, make("span", { class: "hidden" }, told), make("span", { "aria-hidden": "true" }, `${percent(old.shares[group])} → ${percent(now.shares[group])}`)));
  }
  return part;
}
