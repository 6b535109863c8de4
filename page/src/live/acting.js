// What the page may do, and asks the server to do.
import { signal } from "@preact/signals";

/** @type {import("@preact/signals").Signal<boolean>} whether this visitor may change anything */
export const acts = signal(false);
let token = "";

/** Finds out what this visitor may do; returns the status of the answer. */
export async function askWhatMayBeDone() {
  const response = await fetch("session");
  if (response.ok) {
    const said = await response.json();
    token = said.token;
    acts.value = said.acts;
  }
  return response.status;
}

/** Asks the server; what it refuses is thrown as words. @param {"preview"|"actions"} what @param {object} body @returns {Promise<any>} */
export async function ask(what, body) {
  const response = await fetch(what, { method: "POST", body: JSON.stringify(body), headers: { "x-hippo-token": token, "content-type": "application/json" } });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  let words = `the server answered ${response.status}`;
  try {
    words = JSON.parse(text).error ?? words;
  } catch {
    words = new DOMParser().parseFromString(text, "text/html").body.textContent || words;
  }
  throw new Error(words);
}
