import { render } from "preact";
import { App } from "./app.js";
import { begin } from "./live/begin.js";
import { html } from "./parts/html.js";

begin();
const page = /** @type {HTMLElement} */ (document.getElementById("page"));
page.replaceChildren();
render(html`<${App} />`, page);
