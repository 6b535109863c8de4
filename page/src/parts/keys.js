// Going through the trials with the keyboard, in the order of their ranks.
import { hovered, model, select, selected } from "../state.js";

/** Up goes to a better trial, down to a worse one, and Enter selects it. @param {KeyboardEvent} event @returns {boolean} whether the key was one of these */
export function goByRank(event) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "Enter" && hovered.value) select(hovered.value);
  else if (step) {
    const { ranked } = model.value;
    const at = hovered.value ?? selected.value;
    const here = at?.kind === "trial" ? ranked.findIndex((trial) => trial.id === at.id) : -1;
    const next = ranked[here < 0 ? 0 : Math.min(Math.max(here + step, 0), ranked.length - 1)];
    if (next) hovered.value = { kind: "trial", id: next.id };
  } else return false;
  event.preventDefault();
  return true;
}
