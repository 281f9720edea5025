// The second view: where texts lie between the groups' own wordings.
import { ask } from "./asking.js";
import { $, draw, make } from "./elements.js";
import { t } from "./words.js";

const WIDTH = 640, EDGE = 30, LINE = 46;

export async function run(state, context, signal) {
  const texts = state.texts.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, context.about.most_texts);
  if (!texts.length) {
    $("tracks").replaceChildren();
    return "";
  }
  const found = await ask("/api/texts", { ...context.controls(), texts }, signal);
  legend(found.groups);
  $("texts-method").textContent = state.method === "balanced" ? t("texts-balanced") : "";
  $("tracks").replaceChildren(...found.texts.map((text) => track(text, found)));
  return "";
}

const whole = (lean) => Math.round(100 * lean);

function track(text, found) {
  const notes = found.groups.map((group) => t("texts-lean", { text: text.text, group, before: whole(text.before[group]), after: whole(text.after[group]) }));
  const shown = found.groups.length === 2 ? [found.groups[0]] : found.groups;
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${LINE * shown.length}`, role: "img", "aria-label": notes.join("; ") });
  shown.forEach((group, i) => picture.append(axis(text, found, group, i)));
  const name = make("p", {}, text.text);
  if (text.left_alone) name.append(make("span", { class: "note" }, t("texts-left-alone", { reason: text.left_alone })));
  return make("div", { class: "track" }, name, picture);
}

// Of two groups one axis shows both, the first to the right; of more, each has an axis of its own.
function axis(text, found, group, line) {
  const two = found.groups.length === 2;
  const reach = 1.35;
  const x = (lean) => EDGE + ((Math.max(-reach, Math.min(reach, lean)) + reach) / (2 * reach)) * (WIDTH - 2 * EDGE);
  const y = LINE * line + 20;
  const part = draw("g", {}, draw("line", { class: "axis", x1: EDGE, x2: WIDTH - EDGE, y1: y, y2: y }), draw("line", { class: "middle", x1: x(0), x2: x(0), y1: y - 12, y2: y + 12 }));
  found.groups.forEach((other, code) => {
    if (!two && other !== group) return;
    const side = two && other !== group ? -1 : 1;
    for (const lean of found.wordings[other]) part.append(draw("circle", { class: `own-wording f${code % 7}`, cx: x(side * lean), cy: y, r: 4 }));
  });
  const label = (content, at, anchor) => { const element = draw("text", { x: at, y: y + 22, "text-anchor": anchor }); element.textContent = content; part.append(element); };
  label(group, WIDTH - EDGE, "end");
  if (two) label(found.groups[1], EDGE, "start");
  const [from, to] = [x(text.before[group]), x(text.after[group])];
  part.append(draw("line", { class: "went", x1: from, x2: to, y1: y, y2: y }), draw("circle", { class: "mark-before", cx: from, cy: y, r: 6 }), draw("circle", { class: "mark-after", cx: to, cy: y, r: 6 }));
  return part;
}

function legend(groups) {
  const item = (shape, text) => { const icon = draw("svg", { viewBox: "0 0 16 16" }, draw("circle", { cx: 8, cy: 8, r: 6, class: shape })); return make("span", {}, icon, text); };
  const wordings = groups.map((group, code) => item(`own-wording f${code % 7}`, `${group}: ${t("legend-wordings")}`));
  $("legend").replaceChildren(item("mark-before", t("legend-before")), item("mark-after", t("legend-after")), ...wordings);
}
