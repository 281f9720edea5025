// Talking to the server: with the key of this run, and line by line where an answer comes in parts.
const HELD = "equipoise-explore-key";
let key = "";

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

// The key comes after # in the link, which no server is sent, and leaves the address at once.
export function takeKey(address) {
  const given = address.get("key");
  try {
    if (given) localStorage.setItem(HELD, given);
    key = given ?? localStorage.getItem(HELD) ?? "";
  } catch {
    key = given ?? key; // a frame may have no storage
  }
  address.delete("key");
}

export const picture = (id, size = "small") => `/picture/${id}?size=${size}&key=${encodeURIComponent(key)}`;

async function send(path, body, signal) {
  const headers = { Authorization: `Bearer ${key}` };
  const sent = { headers, signal };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(sent, { method: "POST", body: JSON.stringify(body) });
  }
  const response = await fetch(path, sent);
  if (!response.ok) {
    const told = await response.json().catch(() => ({ error: response.statusText }));
    throw new Refused(response.status, told.error);
  }
  return response;
}

export const ask = async (path, body, signal) => (await send(path, body, signal)).json();
export const fetchFile = async (path, body) => (await send(path, body)).blob();

export async function* parts(path, body, signal) {
  const response = await send(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
