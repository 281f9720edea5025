// The two rows of pictures. They share hover, focus and scroll, and are walked with the arrow keys.
import { picture } from "./asking.js";
import { $, make } from "./elements.js";
import { t } from "./words.js";

const STRIPS = ["before", "after"];

export function tile(image, place, { groups, move = "", pictures = true }) {
  const group = image.group ?? t("group-unknown");
  const values = { place, name: image.name, group, score: image.score?.toFixed(3) ?? "" };
  const label = [t("tile", values), move ? t(`tile-${move}`) : ""].filter(Boolean).join(", ");
  const frame = make("span", { class: "frame" });
  if (pictures) {
    const shown = make("img", { alt: "", src: picture(image.id), width: 115, height: 115, decoding: "async" });
    shown.addEventListener("error", () => shown.replaceWith(make("span", { class: "missing" }, t("no-picture"))));
    frame.append(shown);
  } else {
    frame.append(make("span", { class: "missing" }, image.name));
  }
  const code = groups.indexOf(image.group);
  const named = make("span", { class: `group ${code < 0 ? "" : `g${code % 7}`}` }, make("i"), group);
  const button = make("button", { type: "button", class: "tile", "aria-label": label, "data-id": image.id, "data-move": move || null }, frame, named);
  if (move) frame.append(make("span", { class: "badge", "aria-hidden": "true" }, t(`moved-${move}`)));
  button.addEventListener("click", () => enlarge(image, label, pictures));
  return button;
}

// Pictures that stay keep their elements, so that nothing flickers while one types.
export function show(name, images, options) {
  const strip = $(name);
  const old = new Map([...strip.querySelectorAll(".tile")].map((button) => [button.dataset.id, button]));
  const focused = strip.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  const items = images.map((image, i) => {
    const made = tile(image, i + 1, { ...options, move: options.moved.has(image.id) ? options.kind : "" });
    const before = old.get(String(image.id))?.querySelector("img");
    if (before?.complete) made.querySelector("img")?.replaceWith(before);
    made.tabIndex = -1;
    return make("li", {}, made);
  });
  strip.replaceChildren(...items);
  const first = strip.querySelector(".tile");
  if (first) first.tabIndex = 0;
  if (focused !== null) (strip.querySelector(`[data-id="${focused}"]`) ?? first)?.focus();
}

export function empty(name) {
  $(name).replaceChildren();
}

// Softly, and at most twice: a picture of 64 pixels does not fill a screen, and one can tell.
const MOST = 2;

function enlarge(image, label, pictures) {
  if (!pictures) return;
  const shown = $("large-picture");
  shown.onload = () => { shown.style.width = `${MOST * shown.naturalWidth}px`; };
  shown.src = picture(image.id, "large");
  shown.alt = label;
  $("large-name").textContent = label;
  $("large").showModal();
}

function twins(target, on) {
  const id = target.closest?.(".tile")?.dataset.id;
  for (const button of document.querySelectorAll(".tile.twin")) button.classList.remove("twin");
  if (!on || id === undefined) return;
  for (const name of STRIPS) $(name).querySelector(`[data-id="${id}"]`)?.classList.add("twin");
}

function walk(event) {
  const button = event.target.closest(".tile");
  if (!button) return;
  const strip = button.closest(".strip");
  const tiles = [...strip.querySelectorAll(".tile")];
  const other = [...$(strip.id === "before" ? "after" : "before").querySelectorAll(".tile")];
  const at = tiles.indexOf(button);
  const next = { ArrowRight: tiles[at + 1], ArrowLeft: tiles[at - 1], Home: tiles[0], End: tiles.at(-1), ArrowDown: strip.id === "before" ? other[at] : null, ArrowUp: strip.id === "after" ? other[at] : null }[event.key];
  if (!next) return;
  event.preventDefault();
  for (const one of next.closest(".strip").querySelectorAll(".tile")) one.tabIndex = one === next ? 0 : -1;
  next.focus();
}

export function begin() {
  let leader = null;
  for (const name of STRIPS) {
    const strip = $(name);
    const other = $(name === "before" ? "after" : "before");
    strip.addEventListener("pointerover", (event) => twins(event.target, true));
    strip.addEventListener("pointerleave", (event) => twins(event.target, false));
    strip.addEventListener("focusin", (event) => twins(event.target, true));
    strip.addEventListener("focusout", (event) => twins(event.target, false));
    strip.addEventListener("keydown", walk);
    strip.addEventListener("scroll", () => {
      if (leader !== null && leader !== strip) return;
      leader = strip;
      other.scrollLeft = strip.scrollLeft;
      clearTimeout(strip.settled);
      strip.settled = setTimeout(() => { leader = null; }, 120);
    }, { passive: true });
  }
  $("large-close").addEventListener("click", () => $("large").close());
  $("large").addEventListener("click", (event) => { if (event.target === $("large")) $("large").close(); });
}
