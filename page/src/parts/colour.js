// Colours: read from the style sheet, so that light and dark are decided in one place.
import { theme } from "../state.js";

/** @type {Map<string, string>} */
const known = new Map();

/** @param {string} name a custom property of the page, without its dashes */
export function colour(name) {
  let found = known.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    known.set(name, found);
  }
  return found;
}

const SHADES = 9;

/** The colour of a value, by the share of all values that are no better. @param {number|null} share */
export function shade(share) {
  if (share === null || Number.isNaN(share)) return colour("none");
  return colour(`ramp-${Math.min(Math.floor(share * SHADES), SHADES - 1)}`);
}

/** Whether dark ink is readable on a shade. @param {number|null} share */
export function inkOn(share) {
  if (share === null || Number.isNaN(share)) return colour("ink");
  return colour(`on-ramp-${Math.min(Math.floor(share * SHADES), SHADES - 1)}`);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => {
  known.clear();
  theme.value++;
});
