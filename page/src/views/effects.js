// Which hyper-parameters matter.
import { axesOf } from "../model/configs.js";
import { effects } from "../model/effects.js";
import { perModel } from "../model/memo.js";
import { resultsOf } from "../model/paths.js";
import { plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { model } from "../state.js";

const FEWEST = 8;

export function Effects() {
  const known = model.value;
  const found = foundIn(known);
  return html`<${Panel} id="effects" title="Which hyper-parameters matter" remark=${found.length ? "How much of the trials' ranks each explains by itself, beyond chance. Two that only matter together show little." : ""}>
    ${found.length
      ? html`<table class="effects"><thead class="hidden"><tr><th scope="col">hyper-parameter</th><th scope="col">explains</th></tr></thead><tbody>${found.slice(0, 12).map(({ axis, share, trials }) => html`<tr key=${axis.name}>
          <th scope="row">${axis.name}</th>
          <td title=${plural(trials, "config")}><span class="effect" aria-hidden="true"><i style=${{ width: `${100 * share}%` }}></i></span><span class="percent">${Math.round(100 * share)} %</span></td></tr>`)}</tbody></table>`
      : html`<${Empty}>This needs at least ${FEWEST} configs that differ and were measured at the same step.</${Empty}>`}
  </${Panel}>`;
}

const foundIn = perModel((/** @type {import("../model/derive.js").Model} */ known) => {
  /** @type {Map<number, {step: number, score: number}[]>} */
  const measured = new Map();
  for (const trial of known.trials) {
    const scores = [];
    for (const [step, row] of resultsOf(known, trial)) {
      const value = known.measured[row];
      if (value !== null && value !== undefined) scores.push({ step, score: known.sign * value });
    }
    if (scores.length) measured.set(trial.config, scores);
  }
  return measured.size < FEWEST ? [] : effects(axesOf(known), measured);
});
