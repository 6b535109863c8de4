// The studies of the plan, and who shares what with whom.
import { number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Panel } from "../parts/panel.js";
import { about, chosenStudy, model } from "../state.js";

export function Studies() {
  const { tables } = model.value;
  const names = tables.studies.name;
  if (names.length < 2) return null;
  const { own, shared, union, asked } = sharing(tables);
  return html`<${Panel} id="studies" title="Studies of this plan" class="whole" remark=${`${plural(names.length, "study").replace("studys", "studies")} merge into one tree: ${number(union)} unique steps together, ${number(own.reduce((sum, steps) => sum + steps, 0))} were each alone.`}>
    <div class="scroll" tabindex="0" role="region" aria-label="Steps shared between studies"><table class="shares">
      <thead><tr><th scope="col" class="left">study</th><th scope="col">asked</th><th scope="col">unique</th>${names.map((name) => html`<th key=${name} scope="col">also in ${name}</th>`)}</tr></thead>
      <tbody>${names.map((name, one) => html`<tr key=${name}>
        <th scope="row" class="left"><button type="button" class="link" onClick=${() => (chosenStudy.value = name)}>${name}</button> <small>${about.value.studies.find((each) => each.name === name)?.metric ?? ""}</small></th>
        <td>${number(asked[one])}</td><td>${number(own[one])}</td>
        ${names.map((other, two) => html`<td key=${other}>${one === two ? "–" : html`${number(shared[one][two])} <small>${own[one] ? Math.round((100 * shared[one][two]) / own[one]) : 0} %</small>`}</td>`)}
      </tr>`)}</tbody>
    </table></div>
  </${Panel}>`;
}

/** How many steps each study needs, and how many of them others need too. @param {import("../model/tables.js").Tables} tables */
function sharing({ studies, trials, asks, nodes }) {
  const count = studies.name.length;
  /** @type {Map<number, number>[]} */
  const reach = Array.from({ length: count }, () => new Map());
  /** @type {Map<number, number>[]} */
  const furthest = Array.from({ length: count }, () => new Map());
  for (let row = 0; row < asks.trial.length; row++) {
    const study = trials.study[asks.trial[row]];
    let node = asks.node[row];
    let step = asks.step[row];
    furthest[study].set(asks.trial[row], Math.max(furthest[study].get(asks.trial[row]) ?? 0, step));
    while (node >= 0) {
      const known = reach[study].get(node) ?? -1;
      if (known >= step) break;
      if (step > nodes.start[node]) reach[study].set(node, step);
      step = Math.min(step, nodes.start[node]);
      node = nodes.parent[node];
    }
  }
  /** @type {Map<number, number>} */
  const all = new Map();
  for (const each of reach) for (const [node, step] of each) all.set(node, Math.max(all.get(node) ?? -1, step));
  /** @param {Map<number, number>} one @param {Map<number, number>} other */
  const both = (one, other) => {
    let steps = 0;
    for (const [node, step] of one) {
      const there = other.get(node);
      if (there !== undefined) steps += Math.max(Math.min(step, there) - nodes.start[node], 0);
    }
    return steps;
  };
  return {
    own: reach.map((each) => both(each, each)), union: both(all, all),
    shared: reach.map((one) => reach.map((other) => both(one, other))),
    asked: furthest.map((each) => [...each.values()].reduce((sum, step) => sum + step, 0)),
  };
}
