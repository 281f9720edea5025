// One picture at a time. An answer is sent until the server confirms it, always as the same request, and only then does the next picture come.
const $ = (id) => document.getElementById(id);
const LONGEST_WAIT = 5000, PATIENCE = 15000, LOOK_AGAIN = 15000; // milliseconds between tries; for one; until new pictures are looked for
const NO_PICTURE = "The picture does not come. Trying again.";
let turn = null, busy = true, seen = false, looking = 0;

// --- Talking to the server --------------------------------------------------------------------------------------------------
class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function once(path, body) {
  const sent = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(path, { ...sent, signal: AbortSignal.timeout(PATIENCE) });
  if (response.status >= 500) throw new Error("the server is in trouble");
  const found = await response.json();
  if (!response.ok) throw new Refused(response.status, found.error);
  return found;
}

async function insist(path, body) {
  for (let wait = 250; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
    try {
      const found = await once(path, body);
      if ($("status").dataset.trouble) tell("");
      return found;
    } catch (error) {
      if (error instanceof Refused) throw error;
      tell(`${body?.request ? "Not saved yet: the" : "The"} server does not answer. Trying again.`, true);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

// An action outlives a reload of the page: it is sent again, as the same request.
async function act(path, fields) {
  const body = { ...fields, request: crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16).padStart(8, "0")).join("") };
  sessionStorage.setItem("pending", JSON.stringify({ path, body, annotator: turn.annotator }));
  return finish(path, body);
}

async function finish(path, body) {
  try {
    return await insist(path, body);
  } finally {
    sessionStorage.removeItem("pending");
  }
}

// --- Showing ----------------------------------------------------------------------------------------------------------------
function tell(text, trouble = false) {
  const status = $("status");
  status.textContent = text;
  if (trouble) status.dataset.trouble = "yes"; else delete status.dataset.trouble;
}

function notice(title, text, button = false) {
  $("notice-title").textContent = title;
  $("notice-text").textContent = text;
  $("go-on").hidden = !button;
  $("notice").hidden = false;
  $("work").hidden = true;
  if (button) $("go-on").focus();
}

function ready(yes) {
  for (const button of document.querySelectorAll("#answers button")) button.setAttribute("aria-disabled", String(!yes));
}

function answers() {
  $("answers").replaceChildren(...turn.answers.map(({ answer, keys }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.answer = answer;
    button.append(answer, ...keys.map((key) => Object.assign(document.createElement("kbd"), { textContent: key })));
    button.addEventListener("click", () => choose(answer));
    return button;
  }));
}

function show(next) {
  const first = turn === null;
  turn = next;
  if (first) answers();
  const total = turn.answered + turn.left;
  $("annotator").textContent = ` · ${turn.annotator}`;
  $("count").textContent = `${turn.answered} of ${total}`;
  $("progress").max = total || 1;
  $("progress").value = turn.answered;
  $("undo").setAttribute("aria-disabled", String(turn.answered === 0));
  for (const id of ["course", "tools"]) $(id).hidden = false;
  $("question").textContent = turn.question;
  $("prompt").textContent = turn.prompt ?? "";
  $("prompt").hidden = !turn.prompt;
  busy = false;
  clearTimeout(looking);
  if (turn.picture === null) {
    looking = setTimeout(refresh, LOOK_AGAIN);
    notice("All done", `You have answered all ${total} pictures. Thank you. You can close this page; if there are new pictures, the same link shows them.`);
    return;
  }
  $("notice").hidden = true;
  $("work").hidden = false;
  open(turn.picture);
}

function open(picture) {
  const image = $("picture");
  seen = false;
  ready(false);
  image.dataset.waiting = "yes";
  image.alt = `Picture ${turn.answered + 1} of ${turn.answered + turn.left}, to be judged by eye`;
  image.src = `/picture/${picture}`;
}

$("picture").addEventListener("load", () => {
  delete $("picture").dataset.waiting;
  if ($("status").textContent === NO_PICTURE) tell("");
  seen = true;
  ready(true);
  if (turn.following) new Image().src = `/picture/${turn.following}`;
});

$("picture").addEventListener("error", async () => {
  const picture = turn.picture;
  try {
    await once(`/picture/${picture}`);
  } catch (error) {
    if (turn.picture !== picture) return;
    if (error instanceof Refused) return error.status === 401 ? refuse(error) : notice("This picture cannot be shown", `${error.message} It is noted, and you need not answer.`, true);
    tell(NO_PICTURE, true);
    setTimeout(() => turn.picture === picture && open(picture), 1000);
  }
});

function refuse(error) {
  busy = true;
  notice(error.status === 401 || error.status === 403 ? "Who are you?" : "That did not work", `${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
  for (const id of ["course", "tools"]) $(id).hidden = true;
}

// --- Doing ------------------------------------------------------------------------------------------------------------------
async function choose(answer) {
  if (busy || !seen || turn.picture === null || !$("notice").hidden) return;
  busy = true;
  ready(false);
  await settle(() => act("/api/label", { picture: turn.picture, answer }), `Saved: ${answer}.`);
}

async function undo() {
  if (busy || turn.answered === 0) return;
  busy = true;
  await settle(() => act("/api/undo", {}), "Taken back. Answer this picture again.");
}

async function settle(action, said) {
  try {
    const next = await action();
    tell(said);
    show(next);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return refuse(error);
    const next = await insist("/api/turn");
    tell(error.message, true);
    show(next);
  }
}

async function refresh() {
  if (busy) return;
  busy = true;
  await settle(() => insist("/api/turn"), "");
}

$("undo").addEventListener("click", undo);
$("go-on").addEventListener("click", refresh);
$("leave").addEventListener("click", async () => {
  await insist("/api/leave", {});
  refuse(new Refused(401, "you have left; open your link to come back"));
});
$("keys").checked = localStorage.getItem("keys") !== "off";
$("keys").addEventListener("change", () => localStorage.setItem("keys", $("keys").checked ? "on" : "off"));
document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || turn === null || !$("keys").checked) return;
  const key = event.key.toLowerCase();
  if (key === "z" || key === "backspace") undo();
  const found = turn.answers.find(({ keys }) => keys.includes(key));
  if (found) choose(found.answer);
});

// --- Beginning --------------------------------------------------------------------------------------------------------------
async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname); // before anything else can go wrong
  try {
    show(token === null ? await insist("/api/turn") : await insist("/api/enter", { token }));
    const pending = JSON.parse(sessionStorage.getItem("pending"));
    if (pending?.annotator !== turn.annotator) return;
    busy = true;
    await settle(() => finish(pending.path, pending.body), "Saved.");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    refuse(error);
  }
}
window.addEventListener("hashchange", begin);
begin();
