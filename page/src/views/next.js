// What runs next, and why.
import { changes } from "../model/configs.js";
import { trialsThrough } from "../model/paths.js";
import { duration, number, plural } from "../parts/format.js";
import { html } from "../parts/html.js";
import { Empty, Panel } from "../parts/panel.js";
import { hovered, model, select } from "../state.js";

export function Next() {
  const known = model.value;
  const { pulse } = known;
  const tasks = pulse?.next ?? [];
  const left = known.totals.unique - known.totals.done;
  return html`<${Panel} id="next" title="What runs next" remark=${tasks.length ? "The study with the fewest workers has its turn; of its work, the longest chain goes first." : ""}>
    ${tasks.length
      ? html`<ol class="list next">${tasks.map((task, place) => html`<li key=${`${task.node} ${task.start} ${task.goal}`}
          onPointerEnter=${() => (hovered.value = { kind: "stage", node: task.goal, from: known.start[task.goal] ?? 0, to: task.end })} onPointerLeave=${() => (hovered.value = null)}>
          <button type="button" class="link" onClick=${() => select({ kind: "stage", node: task.goal, from: Math.max(task.start, known.start[task.goal] ?? 0), to: task.end })}>steps ${number(task.start)}–${number(task.end)}</button>
          <span>${place === 0 ? "first: " : ""}${plural(task.reach, "step")} hang${task.reach === 1 ? "s" : ""} on it in one chain${pulse?.usual ? `, about ${duration(task.reach * pulse.usual)}` : ""}; ${plural(trialsThrough(known, task.goal, Math.max(task.start, known.start[task.goal] ?? 0)).length, "trial")}</span>
          <code>${changes(known, task.goal)}</code></li>`)}</ol>`
      : html`<${Empty}>${
          pulse
            ? pulse.leases.length ? "Nothing waits: all that was asked for is trained or under way." : "Nothing waits, nothing runs."
            : left > 0 ? `${plural(left, "unique step")} ${left === 1 ? "is" : "are"} not trained, and nothing trains them now: run the study again to go on.` : "Everything that was asked for is trained."
        }</${Empty}>`}
  </${Panel}>`;
}
