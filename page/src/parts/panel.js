// A view in its frame: a title, what is to be seen, its controls, and the same as a table.
import { useState } from "preact/hooks";
import { html } from "./html.js";

/**
 * @param {{id: string, title: string, remark?: any, controls?: any, table?: () => any, children: any, ready?: boolean, empty?: boolean, class?: string}} props
 */
export function Panel({ id, title, remark, controls, table, children, ready = true, empty = false, class: extra = "" }) {
  const [asTable, setAsTable] = useState(false);
  return html`<section class=${`panel ${extra}`} id=${id} aria-labelledby=${`${id}-title`}>
    <header>
      <h2 id=${`${id}-title`}>${title}</h2>
      <p class="remark">${remark}</p>
      <div class="controls">
        ${!asTable && !empty && controls}
        ${table && !empty && html`<button type="button" class="quiet" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>Table</button>`}
      </div>
    </header>
    ${ready && (asTable && table && !empty ? table() : children)}
  </section>`;
}

/** @param {{children: any}} props */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;
