// The page: controls in, one of three views out. The address always says what is shown.
import * as address from "./address.js";
import { ask, Refused, takeKey } from "./asking.js";
import * as classes from "./classes.js";
import { $, make } from "./elements.js";
import * as keeping from "./keeping.js";
import * as rows from "./rows.js";
import * as search from "./search.js";
import * as texts from "./texts.js";
import { fill, load, t } from "./words.js";

const VIEWS = { search, texts, classes };
const HEADINGS = { search: "title", texts: "texts-title", classes: "classes-title" };
const PAUSE = 40; // milliseconds after a key, in which the next one may come
const SOON = 180; // milliseconds after which the page says that it is at work
const TEXTS = "a photo of a doctor\na photo of a nurse\na photo of an engineer\na photo of a teacher\na photo of a female doctor";
const CLASSES = "doctor, nurse, engineer, teacher";
const context = { state: {}, attempt };
let usual = {}, going = null, pending = 0;

// --- What is asked
context.controls = () => ({ attribute: context.state.attribute, method: context.state.method, target: target(), strength: context.state.strength, k: context.state.k });
context.question = () => ({ ...context.controls(), text: context.state.text });

function target() {
  const given = context.state.target;
  if (!Array.isArray(given)) return given;
  return Object.fromEntries(context.groups.map((group, i) => [group, given[i] / 100]));
}

const sum = () => (Array.isArray(context.state.target) ? context.state.target.reduce((all, share) => all + share, 0) : 100);

async function run() {
  going?.abort();
  const mine = going = new AbortController();
  address.write(context.state, usual);
  if (context.state.view === "search" && !context.state.text.trim()) return done();
  if (Math.abs(sum() - 100) > 0.4) return done();
  const slow = setTimeout(() => { $("results").setAttribute("aria-busy", "true"); tell(t("working")); }, SOON);
  try {
    const said = await VIEWS[context.state.view].run(context.state, context, mine.signal);
    if (mine.signal.aborted) return;
    tell("");
    $("heard").textContent = said; // the page shows it elsewhere
  } catch (error) {
    if (!mine.signal.aborted) complain(error);
  } finally {
    clearTimeout(slow);
    if (mine === going) done();
  }
}

function done() {
  $("results").setAttribute("aria-busy", "false");
  $("results").dataset.shown = "yes"; // what is asked for is what is shown
}

function later() {
  $("results").dataset.shown = "no";
  clearTimeout(pending);
  pending = setTimeout(run, PAUSE);
}

async function attempt(action) {
  try {
    await action();
  } catch (error) {
    complain(error);
  }
}

function complain(error) {
  if (error instanceof Refused && error.status === 401) return notice("refused-title", "refused");
  if (error instanceof TypeError && error.message.includes("fetch")) return notice("gone-title", "gone");
  tell(t("failed", { reason: error.message }));
}

// --- What is shown
function tell(text) {
  $("status").textContent = text;
}

function notice(title, text) {
  $("notice-title").textContent = t(title);
  $("notice-text").textContent = t(text);
  $("notice").hidden = false;
  $("work").hidden = true;
}

function option(value, text) {
  return make("option", { value }, text);
}

function showState() {
  const { state, about } = context;
  context.groups = address.groups(about, state.attribute);
  state.by = about.attributes.find(({ name }) => name === state.attribute).by;
  for (const button of $("views").querySelectorAll("button")) {
    if (button.dataset.view === state.view) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current");
  }
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").includes(state.view);
  $("heading").textContent = t(HEADINGS[state.view]);
  for (const id of ["text", "texts", "classes", "attribute", "method", "strength"]) if ($(id).value !== String(state[id])) $(id).value = state[id];
  $("places").value = state.k;
  $("target").value = Array.isArray(state.target) ? "own" : state.target;
  $("target").disabled = state.method !== "balanced";
  $("strength").disabled = state.method === "orth-proj";
  $("strength-of").textContent = t("strength-of", { percent: Math.round(100 * state.strength) });
  $("by").textContent = t(`by-${state.by}`);
  showOwn();
}

function showOwn() {
  const own = Array.isArray(context.state.target);
  $("own").hidden = !own;
  if (!own) return $("own").replaceChildren();
  if ($("own").querySelectorAll("input").length !== context.groups.length || $("own").dataset.of !== context.state.attribute) {
    $("own").dataset.of = context.state.attribute;
    $("own").replaceChildren(...context.groups.map((group, i) => {
      const field = make("input", { type: "number", id: `share-${i}`, min: "0", max: "100", step: "1", value: String(context.state.target[i]) });
      field.addEventListener("input", () => {
        context.state.target[i] = Math.min(100, Math.max(0, Number.parseFloat(field.value) || 0));
        showSum();
        later();
      });
      return make("div", {}, make("label", { for: `share-${i}` }, t("target-share", { group })), field);
    }), make("p", { id: "sum", role: "status" }));
  }
  showSum();
}

function showSum() {
  const whole = Math.abs(sum() - 100) <= 0.4;
  $("sum").textContent = whole ? "" : t("target-sum", { sum: Math.round(sum() * 10) / 10 });
}

function equalShares() {
  const names = context.groups;
  const each = Math.floor(1000 / names.length) / 10;
  return names.map((_, i) => (i ? each : Math.round((100 - each * (names.length - 1)) * 10) / 10));
}

// --- What is done
function change(values) {
  Object.assign(context.state, values);
  showState();
  later();
}

function listen() {
  for (const id of ["text", "texts", "classes"]) $(id).addEventListener("input", () => change({ [id]: $(id).value }));
  $("strength").addEventListener("input", () => change({ strength: Number($("strength").value) }));
  $("places").addEventListener("input", () => {
    const k = Number.parseInt($("places").value, 10);
    if (k >= 1 && k <= context.about.most_places) { context.state.k = k; later(); }
  });
  $("places").addEventListener("change", showState);
  $("attribute").addEventListener("change", () => change({ attribute: $("attribute").value, target: Array.isArray(context.state.target) ? "collection" : context.state.target }));
  $("method").addEventListener("change", () => change({ method: $("method").value }));
  $("target").addEventListener("change", () => change({ target: $("target").value === "own" ? equalShares() : $("target").value }));
  $("ask").addEventListener("submit", (event) => { event.preventDefault(); run(); });
  $("views").addEventListener("click", (event) => { if (event.target.dataset.view) change({ view: event.target.dataset.view }); });
  $("skip").addEventListener("click", (event) => { event.preventDefault(); $("results").focus(); }); // the address holds the state
  window.addEventListener("hashchange", () => { const found = address.current(); takeKey(found); change(address.read(found, usual, context.about)); });
}

function choices(about) {
  $("attribute").replaceChildren(...about.attributes.map(({ name }) => option(name, name)));
  $("method").replaceChildren(...about.methods.map((name) => option(name, t(`method-${name}`))));
  $("target").replaceChildren(...["collection", "equal", "own"].map((name) => option(name, t(`target-${name}`))));
  $("places").max = about.most_places;
  $("text").maxLength = about.longest;
  $("examples").replaceChildren(...about.examples.map((text) => {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => change({ text }));
    return button;
  }));
  const told = [t("about", { images: about.images.toLocaleString("en"), name: about.name, model: about.model })];
  if (about.left_out) told.push(t("about-left-out", { count: about.left_out }));
  if (about.missing) told.push(t("about-missing", { count: about.missing.toLocaleString("en"), images: about.images.toLocaleString("en") }));
  if (about.generated) told.push(t("about-generated"));
  $("about").textContent = told.join(" ");
}

async function begin() {
  await load();
  fill(document);
  const found = address.current();
  takeKey(found);
  history.replaceState(null, "", found.size ? `#${found}` : location.pathname); // before anything else can go wrong
  await attempt(async () => {
    const about = context.about = await ask("/api/about");
    usual = { view: "search", text: about.examples[0], attribute: about.attributes[0].name, method: about.methods[0], target: "collection", strength: 1, k: about.places, texts: TEXTS, classes: CLASSES };
    choices(about);
    Object.assign(context.state, address.read(found, usual, about));
    rows.begin();
    keeping.begin(context, tell);
    listen();
    $("work").hidden = false;
    showState();
    await run();
  });
}
begin();
