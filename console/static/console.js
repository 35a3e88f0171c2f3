// Keyboard, sliders' figures, order of tables, and polling that rests while the tab is hidden.
"use strict";

const rows = () => [...document.querySelectorAll("[data-row]")];
let row = -1;

function select(next) {
  const all = rows();
  if (!all.length) return;
  all[row]?.classList.remove("selected");
  row = Math.max(0, Math.min(all.length - 1, next));
  all[row].classList.add("selected");
  all[row].scrollIntoView({ block: "nearest" });
}

const shortcuts = {
  "/": () => document.querySelector("[data-first]")?.focus(),
  j: () => select(row + 1),
  k: () => select(row - 1),
  Enter: () => rows()[row]?.querySelector("[data-open]")?.click(),
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  // The focus stays in a dialog that was just closed until the browser draws the page.
  const isTyping = event.target.checkVisibility()
    && event.target.closest("input:not([type=range]), select, textarea, dialog, button, a");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in shortcuts)) return;
  event.preventDefault();
  shortcuts[event.key]();
});

document.addEventListener("input", (event) => {
  const figure = event.target.labels?.[0]?.querySelector("output");
  if (figure) figure.value = event.target.value;
});

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("change", (event) => {
  if ("submits" in event.target.dataset) event.target.form.requestSubmit();
});

function refresh(part) {
  const target = `#${part.id}`;
  const present = document.querySelector(`${target}[data-refresh-s]`);
  // After a refresh the selected row might be another one.
  if (document.hidden || !present || present.querySelector(".selected")) return;
  htmx.ajax("GET", location.href, { source: target, target, select: target, swap: "outerHTML" });
}

for (const part of document.querySelectorAll("[data-refresh-s]")) {
  setInterval(refresh, 1000 * Number(part.dataset.refreshS), part);
  document.addEventListener("visibilitychange", () => refresh(part));
}

// A click on the head of a column sorts the rows, numbers as numbers; the order stays when the page refreshes.
const orders = {};

function value(tableRow, column) {
  const text = tableRow.cells[column]?.textContent.trim() ?? "";
  const number = parseFloat(text);
  return Number.isNaN(number) || /[a-z]|\d-\d/i.test(text) ? text : number;
}

function sort(table, name) {
  const [column, direction] = orders[name];
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
  const sorted = [...table.tBodies[0].rows].sort((a, b) => direction * compare(value(a, column), value(b, column)));
  table.tBodies[0].append(...sorted);
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].ariaSort = direction > 0 ? "ascending" : "descending";
}

function makeSortable() {
  document.querySelectorAll("table:has(tbody > tr[data-row])").forEach((table, place) => {
    const name = `${location.pathname} ${place}`;
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      if (head.querySelector("button")) continue;
      const button = document.createElement("button");
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const [before, direction] = orders[name] ?? [];
        orders[name] = [column, before === column ? -direction : 1];
        sort(table, name);
      });
    }
    if (name in orders) sort(table, name);
  });
}
makeSortable();
document.addEventListener("htmx:afterSwap", makeSortable);

// An expired session answers with the login page, which belongs into the whole window.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (new URL(event.detail.xhr.responseURL).pathname.endsWith("/login")) {
    event.detail.shouldSwap = false;
    location.reload();
  }
});

for (const form of document.querySelectorAll("[data-drop]")) {
  const mark = (event) => {
    event.preventDefault();
    form.classList.toggle("dropping", event.type === "dragover");
  };
  for (const type of ["dragover", "dragleave", "drop"]) form.addEventListener(type, mark);
  form.addEventListener("drop", (event) => {
    form.elements.file.files = event.dataTransfer.files;
    form.requestSubmit();
  });
}

// What htmx was refused is said beside the form that asked.
document.addEventListener("htmx:responseError", ({ detail }) => {
  const page = new DOMParser().parseFromString(detail.xhr.responseText, "text/html");
  const alert = document.createElement("p");
  alert.className = "error";
  alert.role = "alert";
  alert.textContent = page.querySelector("[role=alert] strong")?.textContent ?? detail.xhr.statusText;
  detail.elt.after(alert);
});
