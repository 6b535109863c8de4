// A table of any length: only the rows that are in sight are in the document.
import { useMemo, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

const ROW = 32;

/**
 * @template T
 * @typedef {{name: string, title: string, value: (row: T) => (string|number|null), show?: (row: T) => any, left?: boolean, grow?: boolean}} Column
 */

/**
 * @template T
 * @param {{label: string, rows: T[], columns: Column<T>[], rowKey: (row: T) => string|number, height?: number, sort?: [string, boolean],
 *   rowClass?: (row: T) => string, onHover?: (row: T|null) => void, onPick?: (row: T, event: any) => void, filter?: boolean}} props
 */
export function Table({ label, rows, columns, rowKey, height = 320, sort: given, rowClass, onHover, onPick, filter }) {
  const [sort, setSort] = useState(/** @type {[string, boolean]|null} */ (given ?? null));
  const [text, setText] = useState("");
  const [top, setTop] = useState(0);
  const body = useRef(/** @type {HTMLDivElement|null} */ (null));

  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? rows.filter((row) => matches(row, columns, words)) : rows;
    const by = sort && columns.find((column) => column.name === sort[0]);
    return sort && by ? [...found].sort((a, b) => order(by.value(a), by.value(b), sort[1])) : found;
  }, [rows, text, sort]);
  const first = Math.max(Math.floor(top / ROW) - 8, 0);
  const last = Math.min(Math.ceil((top + height) / ROW) + 8, shown.length);
  const above = first * ROW;
  const below = (shown.length - last) * ROW;

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const focused = /** @type {HTMLElement} */ (event.target).closest("tr");
    const next = step > 0 ? focused?.nextElementSibling : focused?.previousElementSibling;
    if (next instanceof HTMLElement && next.tabIndex >= 0) {
      event.preventDefault();
      next.focus();
    }
  };
  return html`<div class="table">
    ${filter && html`<div class="filter">
      <input type="search" placeholder="Filter: a number, a state, lr>0.01, text" aria-label="Filter the rows" value=${text}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <span class="count" role="status">${shown.length === rows.length ? "" : `${shown.length} of ${rows.length}`}</span>
    </div>`}
    <div class="scroll" ref=${body} style=${{ maxHeight: `${height}px` }} tabindex="0" role="region" aria-label=${label}
      onScroll=${(/** @type {any} */ event) => setTop(event.target.scrollTop)} onPointerLeave=${() => onHover?.(null)}>
      <table aria-rowcount=${shown.length + 1} onKeyDown=${onKey}>
        <caption class="hidden">${label}</caption>
        <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${column.left ? "left" : ""}
          aria-sort=${sort?.[0] === column.name ? (sort[1] ? "ascending" : "descending") : undefined}>
          <button type="button" onClick=${() => setSort([column.name, sort?.[0] === column.name ? !sort[1] : true])}>
            ${column.title}<span class="arrow" aria-hidden="true">${sort?.[0] === column.name ? (sort[1] ? "▲" : "▼") : ""}</span>
          </button></th>`)}</tr></thead>
        <tbody>
          ${above > 0 && html`<tr aria-hidden="true" style=${{ height: `${above}px` }}><td colspan=${columns.length}></td></tr>`}
          ${shown.slice(first, last).map((row, place) => html`<tr key=${rowKey(row)} class=${rowClass?.(row) ?? ""} aria-rowindex=${first + place + 2}
            tabindex=${onPick ? 0 : undefined} onPointerEnter=${() => onHover?.(row)} onFocus=${() => onHover?.(row)} onBlur=${() => onHover?.(null)}
            onClick=${(/** @type {any} */ event) => onPick?.(row, event)}
            onKeyDown=${(/** @type {any} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onPick?.(row, event); } }}>
            ${columns.map((column) => html`<td key=${column.name} class=${`${column.left ? "left" : ""} ${column.grow ? "grow" : ""}`}>${column.show ? column.show(row) : column.value(row)}</td>`)}
          </tr>`)}
          ${below > 0 && html`<tr aria-hidden="true" style=${{ height: `${below}px` }}><td colspan=${columns.length}></td></tr>`}
        </tbody>
      </table>
    </div>
  </div>`;
}

/** @param {any} a @param {any} b @param {boolean} ascending */
function order(a, b, ascending) {
  if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0); // what is not known comes last
  const way = ascending ? 1 : -1;
  return way * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** @param {any} row @param {Column<any>[]} columns @param {string[]} words */
function matches(row, columns, words) {
  return words.every((word) => {
    const compared = /^(.+?)(>=|<=|>|<|=)(.+)$/.exec(word);
    if (compared) {
      const [, name, sign, bound] = compared;
      const column = columns.find((each) => each.name.toLowerCase() === name || each.title.toLowerCase() === name);
      const value = column?.value(row);
      if (value === null || value === undefined) return false;
      const [one, other] = [Number(value), Number(bound)];
      if (Number.isNaN(one) || Number.isNaN(other)) return sign === "=" && String(value).toLowerCase().includes(bound);
      return sign === ">" ? one > other : sign === "<" ? one < other : sign === ">=" ? one >= other : sign === "<=" ? one <= other : one === other;
    }
    return columns.some((column) => String(column.value(row) ?? "").toLowerCase().includes(word));
  });
}
