// The state of the page lives in its address: a link shows the same.
const SHORT = { view: "v", text: "q", attribute: "a", method: "m", target: "t", strength: "s", k: "k", texts: "x", classes: "c" };
const VIEWS = ["search", "texts", "classes"];

export const current = () => new URLSearchParams(location.hash.slice(1));

// What cannot be read is as usual: an address may have been typed by anybody.
export function read(address, usual, about) {
  const state = { ...usual };
  const choice = (name, legal) => { const given = address.get(SHORT[name]); if (legal.includes(given)) state[name] = given; };
  choice("view", VIEWS);
  choice("attribute", about.attributes.map(({ name }) => name));
  choice("method", about.methods);
  for (const name of ["text", "texts", "classes"]) {
    const given = address.get(SHORT[name]);
    if (given !== null) state[name] = given.slice(0, about.longest * about.most_texts);
  }
  const strength = Number.parseFloat(address.get(SHORT.strength));
  if (strength >= 0 && strength <= 1) state.strength = strength;
  const k = Number.parseInt(address.get(SHORT.k), 10);
  if (k >= 1 && k <= about.most_places) state.k = k;
  state.target = target(address.get(SHORT.target), groups(about, state.attribute)) ?? usual.target;
  return state;
}

export const groups = (about, attribute) => about.attributes.find(({ name }) => name === attribute).groups;

// "collection", "equal", or percentages in the order of the groups: "60,40".
function target(given, names) {
  if (given === "collection" || given === "equal") return given;
  const shares = (given ?? "").split(",").map(Number.parseFloat);
  const legal = shares.length === names.length && shares.every((share) => share >= 0 && share <= 100);
  return legal ? shares : null;
}

export function write(state, usual) {
  const address = new URLSearchParams();
  for (const [name, short] of Object.entries(SHORT)) {
    if (String(state[name]) !== String(usual[name])) address.set(short, String(state[name]));
  }
  const text = address.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}
