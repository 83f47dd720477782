"use strict";
const table = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("filter");
const DETAIL = ["cause", "expected", "seen", "fix", "reason", "upstream"];
/* "~" is not run because of a refusal that another contract tells. */
const OUTCOMES = { ".": "holds", "~": "not-run", k: "known", "-": "not-run", F: "fixed", C: "changed", B: "broken", E: "error" };
const SEVERITY = "~.k-FCBE";
const shown = (letter) => (letter === "~" ? "-" : letter);

/* An element with text or other elements in it; never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const text = (number) => (number < 0 ? "" : table.texts[number]);
const detail = (number) => {
  const parts = {};
  if (number !== undefined) DETAIL.forEach((name, place) => (parts[name] = text(table.details[number][place])));
  return parts;
};
const recipe = (row) => table.rows[row][1].split("/").pop();
const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

/* The page's address holds the filter and the cell that is shown, so that both can be passed on. */
const address = () => new URLSearchParams(location.hash.slice(1));
const linkTo = (changes) => {
  const parts = address();
  for (const [name, value] of Object.entries(changes)) {
    if (value) parts.set(name, value);
    else parts.delete(name);
  }
  return `#${parts}`;
};

/* What of a cell the filter leaves: row, letter and number of the detail. */
function chosen(cell) {
  const wanted = Object.fromEntries(new FormData(form));
  const rows = [];
  for (let row = 0; row < cell.outcomes.length; row++) {
    const letter = cell.outcomes[row];
    if (letter === " ") continue;
    if (wanted.contract && table.contracts[table.rows[row][0]] !== wanted.contract) continue;
    if (wanted.recipe && recipe(row) !== wanted.recipe) continue;
    if (wanted.cause && detail(cell.details[row]).cause !== wanted.cause) continue;
    rows.push({ row, letter, detail: cell.details[row] });
  }
  return rows;
}

const worst = (rows) =>
  rows.reduce((least, { letter }) => (SEVERITY.indexOf(letter) > SEVERITY.indexOf(least) ? letter : least), "~");

/* "2 broken, 1 not-run, 9 holds" of some rows, worst first. */
function counted(rows) {
  const counts = new Map();
  for (const letter of [...SEVERITY].reverse()) {
    const number = rows.filter((row) => row.letter === letter).length;
    if (number) counts.set(OUTCOMES[letter], (counts.get(OUTCOMES[letter]) || 0) + number);
  }
  return [...counts].map(([outcome, number]) => `${number} ${outcome}`).join(", ");
}

/* The grid. */
function showGrid() {
  const filtered = [...new FormData(form).values()].some(Boolean);
  const counts = {};
  for (const link of document.querySelectorAll("[data-cell]")) {
    const cell = table.cells[link.dataset.cell];
    const [training, serving] = link.dataset.cell.split("|");
    const rows = chosen(cell);
    let letter = Object.keys(OUTCOMES).find((key) => OUTCOMES[key] === cell.outcome);
    let small = cell.unavailable ? "" : cell.crossing.exported.join("/");
    let about = `${cell.outcome}, `;
    about += cell.unavailable ? "nothing could be judged" : `${cell.crossing.exported.join(" of ")} cross`;
    if (filtered && !cell.unavailable) {
      letter = rows.length ? worst(rows) : "";
      small = rows.filter((item) => !".~-".includes(item.letter)).length || "";
      about = counted(rows) || "nothing of the kind";
    }
    const outcome = OUTCOMES[letter] || "none";
    counts[outcome] = (counts[outcome] || 0) + 1;
    link.parentElement.className = outcome;
    link.querySelector("b").textContent = shown(letter) || "\u00a0";
    link.querySelector("small").textContent = small;
    link.href = linkTo({ cell: link.dataset.cell });
    link.setAttribute("aria-label", `speculators ${training}, sglang ${serving}: ${about}`);
  }
  const names = Object.entries(counts).map(([outcome, count]) => `${count} ${outcome}`);
  document.getElementById("status").textContent =
    `${plural(document.querySelectorAll("[data-cell]").length, "cell")}: ${names.join(", ")}` +
    (filtered ? ", of what is filtered" : "");
}

/* One cell. */
function showCell() {
  const section = document.getElementById("cell");
  const name = address().get("cell");
  const cell = Object.hasOwn(table.cells, name || "") ? table.cells[name] : undefined;
  for (const link of document.querySelectorAll("[data-cell]")) {
    if (link.dataset.cell === name) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  section.replaceChildren();
  if (!cell) return;
  const [training, serving] = name.split("|");
  section.append(make("h2", { tabindex: "-1" }, `speculators ${training} → sglang ${serving}`));
  if (cell.unavailable) {
    section.append(make("p", {}, "Nothing could be judged."), make("pre", {}, cell.unavailable));
    return;
  }
  const [exported, of] = cell.crossing.exported;
  section.append(
    make("p", {}, `${exported} of ${of} kinds of draft cross whole once exported; ` +
      `${cell.crossing.raw.join(" of ")} load as saved.` +
      (cell.missing ? ` ${plural(cell.missing, "contract")} were never judged.` : "")),
    backToTable(name),
    make("h2", {}, "What does not hold"),
    ...explained(cell),
    ...acceptLengths(cell),
    folded("Contracts by kind of draft", letters(chosen(cell))),
    folded("What it ran on", make("pre", {}, cell.sides.join("\n"))),
  );
}

function backToTable(name) {
  const button = make("button", { type: "button" }, "Back to the table");
  button.addEventListener("click", () => document.querySelector(`[data-cell="${CSS.escape(name)}"]`).focus());
  return make("p", {}, button);
}

const folded = (title, content) => make("details", {}, make("summary", {}, title), content);

/* The number that people look at. */
function acceptLengths(cell) {
  const wanted = form.elements.recipe.value;
  const rows = Object.entries(cell.figures).filter(([of]) => !wanted || of.endsWith(`/${wanted}`)).map(([of, figures]) =>
    make("tr", {}, make("th", { scope: "row" }, of),
      ...["accept_length", "replayed", "promised"].map((name) =>
        make("td", {}, figures[name] === undefined ? "" : figures[name].toFixed(2)))));
  if (!rows.length) return [];
  const head = ["setting/draft", "served", "replayed by training", "promised"];
  return [
    make("h2", {}, "Accept length"),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accept lengths" },
      make("table", {}, make("thead", {}, make("tr", {}, ...head.map((title) => make("th", { scope: "col" }, title)))),
        make("tbody", {}, ...rows))),
  ];
}

/* Contracts by kind of draft, a letter each. */
function letters(rows) {
  const byLabel = new Map();
  const columns = new Set();
  for (const { row, letter } of rows) {
    const [contract, name] = table.rows[row];
    const about = name.includes("/") ? ` (${name.slice(0, name.lastIndexOf("/"))})` : "";
    const label = table.contracts[contract] + about;
    if (!byLabel.has(label)) byLabel.set(label, { promise: table.promises[contract], cells: {} });
    byLabel.get(label).cells[recipe(row)] = letter;
    columns.add(recipe(row));
  }
  const known = [...table.recipes, ...columns].filter((item, place, all) => columns.has(item) && all.indexOf(item) === place);
  const head = make("tr", {}, make("th", { scope: "col" }, "contract"),
    ...known.map((title) => make("th", { scope: "col" }, title)));
  const body = [...byLabel].sort(([one], [other]) => (one < other ? -1 : 1)).map(([label, { promise, cells }]) =>
    make("tr", {}, make("th", { scope: "row", title: promise }, label),
      ...known.map((title) => (cells[title] === undefined ? make("td", {}) :
        make("td", { class: OUTCOMES[cells[title]], title: `${title}: ${OUTCOMES[cells[title]]}` },
          make("span", { "aria-hidden": "true" }, shown(cells[title])),
          make("span", { class: "hidden" }, OUTCOMES[cells[title]]))))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Contracts by kind of draft" },
    make("table", { class: "letters" }, make("thead", {}, head), make("tbody", {}, ...body)));
}

/* Everything that does not hold, alike ones together, worst first. */
function explained(cell) {
  const groups = new Map();
  const rows = chosen(cell);
  for (const item of rows) {
    if (item.letter === ".") continue;
    const parts = detail(item.detail);
    const alike = [item.letter, parts.cause, parts.reason, parts.cause && item.letter !== "k" ? parts.seen : ""];
    const key = JSON.stringify(alike);
    if (!groups.has(key)) groups.set(key, { letter: item.letter, parts, rows: [], alike: true });
    const group = groups.get(key);
    group.rows.push(item.row);
    group.alike &&= item.detail === cell.details[group.rows[0]];
  }
  const ordered = [...groups.values()].sort((one, other) => SEVERITY.indexOf(other.letter) - SEVERITY.indexOf(one.letter));
  if (!rows.length) return [make("p", {}, "There is nothing of the kind in this cell.")];
  if (!ordered.length) return [make("p", {}, "Everything that is shown holds.")];
  return ordered.map(({ letter, parts, rows, alike }) => {
    const evidence = alike ? "" : ` (${table.rows[rows[0]][1]})`;
    const contracts = [...new Set(rows.map((row) => table.contracts[table.rows[row][0]]))];
    const cases = [...new Set(rows.map((row) => table.rows[row][1]))];
    const entries = [
      ["contracts", contracts.join(", ")],
      ["drafts", cases.join(", ")],
      ["promise", contracts.length === 1 ? table.promises[table.rows[rows[0]][0]] : ""],
      ["cause", parts.cause && `${parts.cause}: ${table.explanations[parts.cause] || ""}`],
      [`expected${evidence}`, parts.expected],
      [`seen${evidence}`, parts.seen],
      [`fix${evidence}`, parts.fix],
      ["why", parts.reason],
      ["upstream", parts.upstream],
    ].filter(([, value]) => value);
    const list = make("dl", {}, ...entries.flatMap(([title, value]) => [make("dt", {}, title), make("dd", {}, linked(value))]));
    if (OUTCOMES[letter] !== "not-run") {
      const addresses = alike ? [table.rows[rows[0]][2]] : rows.map((row) => table.rows[row][2]);
      const command = `pytest --pyargs ${addresses.join(" ")} ${cell.options}`.trim();
      list.append(make("dt", {}, "reproduce"), make("dd", {}, make("code", {}, command)));
    }
    return make("article", { class: OUTCOMES[letter] },
      make("h3", {}, `${OUTCOMES[letter].toUpperCase()}: ${parts.cause || plural(rows.length, "contract")}`), list);
  });
}

const linked = (value) =>
  /^https:\/\/\S+$/.test(value) ? make("a", { href: value, rel: "noreferrer" }, value) : value;

function fill(select, values) {
  for (const value of values) select.append(make("option", { value }, value));
}

fill(form.elements.contract, [...table.contracts].sort());
fill(form.elements.recipe, table.recipes);
fill(form.elements.cause, Object.keys(table.explanations).sort());
form.hidden = false;
function readAddress() {
  const parts = address();
  for (const select of form.querySelectorAll("select")) {
    select.value = parts.get(select.name) || "";
    if (select.selectedIndex < 0) select.value = "";
  }
}
function showAll() {
  showGrid();
  showCell();
}
function filter() {
  history.replaceState(null, "", linkTo(Object.fromEntries(new FormData(form))));
  showAll();
}
form.addEventListener("change", filter);
form.addEventListener("reset", () => setTimeout(filter));
form.addEventListener("submit", (event) => event.preventDefault());
function goToCell() {
  const heading = document.querySelector("#cell h2");
  if (heading) heading.focus();
}
window.addEventListener("hashchange", () => {
  readAddress();
  showAll();
  goToCell();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the filter's and the cell's
  document.getElementById("frame").focus();
});
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
readAddress();
showAll();
goToCell();
