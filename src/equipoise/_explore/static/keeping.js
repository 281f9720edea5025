// What is kept of a search: its link, a page, a table, and prompts for an audit.
import { ask, fetchFile } from "./asking.js";
import { $, make } from "./elements.js";
import { t } from "./words.js";

const prompts = [];

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (text, ending) => `${text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "search"}.${ending}`;

export function begin(context, tell) {
  const state = context.state;
  $("copy").addEventListener("click", () => context.attempt(async () => {
    await navigator.clipboard.writeText(location.href);
    tell(t("copied"));
  }));
  for (const [id, path, ending] of [["save-page", "/api/page", "html"], ["save-table", "/api/table", "csv"]]) {
    $(id).addEventListener("click", () => context.attempt(async () => {
      download(await fetchFile(path, context.question()), fileName(state.text, ending));
      tell(t("saved"));
    }));
  }
  $("add").addEventListener("click", () => context.attempt(() => add(state.text.trim(), context, tell)));
  $("download-prompts").addEventListener("click", () => download(new Blob([`${prompts.join("\n")}\n`], { type: "text/plain" }), "prompts.txt"));
}

// Into the file that was named when the page was started; without one, into a list to download.
async function add(text, context, tell) {
  if (!text) return;
  if (context.about.prompts_file) {
    const { count, file } = await ask("/api/prompt", context.question());
    tell(t("added-file", { text, file, count }));
    return;
  }
  if (!prompts.includes(text)) prompts.push(text);
  $("download-prompts").hidden = false;
  $("download-prompts").textContent = t("download-prompts", { count: prompts.length });
  tell(t("added", { text, count: prompts.length }));
}
