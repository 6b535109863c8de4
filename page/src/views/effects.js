// Which hyper-parameters matter.
import { axesOf } from "../model/configs.js";
import { effects } from "../model/effects.js";
import { perModel } from "../model/memo.js";
import { pathOf } from "../model/paths.js";
import { plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { useModelInSight } from "../parts/sight.js";

const FEWEST = 8;

export function Effects() {
  const seen = useModelInSight("effects");
  const found = seen ? foundIn(seen) : [];
  return html`<${Panel} id="effects" title="Which hyper-parameters matter" ready=${seen !== null} remark=${found.length ? "How much of the trials' ranks each explains by itself, beyond chance. Two that only matter together show little." : ""}>
    ${found.length
      ? html`<table class="effects"><thead class="hidden"><tr><th scope="col">hyper-parameter</th><th scope="col">explains</th></tr></thead><tbody>${found.slice(0, 12).map(({ axis, share, configs }) => html`<tr key=${axis.name}>
          <th scope="row">${axis.name}</th>
          <td title=${plural(configs, "config")}><span class="effect" aria-hidden="true"><i style=${{ width: `${100 * share}%` }}></i></span><span class="percent">${Math.round(100 * share)} %</span></td></tr>`)}</tbody></table>`
      : html`<${Empty}>This needs at least ${FEWEST} configs that differ and were measured at the same step.</${Empty}>`}
  </${Panel}>`;
}

const foundIn = perModel((/** @type {import("../model/derive.js").Model} */ known) => {
  /** @type {Map<number, {configs: number[], scores: number[]}>} */
  const measured = new Map();
  const seen = new Set();
  for (const trial of known.trials) {
    if (seen.has(trial.config)) continue;
    seen.add(trial.config);
    for (const [node, , to] of pathOf(known, trial)) {
      for (const [step, row] of known.rowsOf[node] ?? []) {
        const value = known.measured[row];
        if (step > to || value === null || value === undefined) continue;
        let at = measured.get(step);
        if (!at) measured.set(step, (at = { configs: [], scores: [] }));
        at.configs.push(trial.config);
        at.scores.push(known.sign * value);
      }
    }
  }
  const most = Math.max(0, ...[...measured.values()].map(({ configs }) => configs.length));
  return most < FEWEST ? [] : effects(axesOf(known), measured);
});
