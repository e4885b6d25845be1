"use strict";
(() => {
  const textOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function compare(a, b, direction) {
    if (!Array.isArray(a) || !Array.isArray(b)) return direction * order.compare(textOf(a), textOf(b));
    if (a[0] === null || b[0] === null) return (a[0] === null) - (b[0] === null); // what is not known comes last
    return direction * (a[0] - b[0]);
  }

  function rowOf(cells, numeric) {
    const row = document.createElement("tr");
    cells.forEach((cell, k) => {
      const box = document.createElement(k === 0 ? "th" : "td");
      if (k === 0) box.scope = "row";
      if (numeric[k]) box.className = "numeric";
      box.textContent = textOf(cell); // never as HTML: it comes from the user's file
      row.append(box);
    });
    return row;
  }

  function headings(section, onSort) {
    return [...section.querySelectorAll("thead th")].map((heading, k) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => onSort(k));
      const printed = document.createElement("span"); // on paper a button is not repeated on the next sheet, text is
      printed.className = "paper";
      printed.textContent = heading.textContent;
      heading.replaceChildren(button, printed);
      heading.setAttribute("aria-sort", "none");
      return heading;
    });
  }

  function enliven(section) {
    const { numeric, rows } = JSON.parse(section.querySelector("script").textContent);
    const size = Number(section.dataset.first);
    const find = (selector) => section.querySelector(selector);
    const [body, search, back, on, place] = ["tbody", "input", ".back", ".on", ".place"].map(find);
    let leaf = 0;
    let sorted = { column: -1, direction: 1 };
    let shown = rows;

    function draw() {
      const leaves = Math.max(1, Math.ceil(shown.length / size));
      leaf = Math.min(Math.max(leaf, 0), leaves - 1);
      const begin = leaf * size;
      const some = shown.slice(begin, begin + size);
      body.replaceChildren(...some.map((cells) => rowOf(cells, numeric)));
      place.textContent = some.length
        ? `${begin + 1} to ${begin + some.length} of ${shown.length}`
        : "Nothing found";
      back.disabled = leaf === 0;
      on.disabled = leaf === leaves - 1;
    }

    function choose() {
      const wanted = search.value.trim().toLowerCase();
      shown = wanted ? rows.filter((cells) => cells.some((cell) => textOf(cell).toLowerCase().includes(wanted))) : [...rows];
      if (sorted.column >= 0) {
        shown.sort((a, b) => compare(a[sorted.column], b[sorted.column], sorted.direction));
      }
      leaf = 0;
      draw();
    }

    const heads = headings(section, (column) => {
      const first = numeric[column] ? -1 : 1;
      sorted = { column, direction: sorted.column === column ? -sorted.direction : first };
      heads.forEach((heading, k) => {
        const direction = sorted.direction > 0 ? "ascending" : "descending";
        heading.setAttribute("aria-sort", k === column ? direction : "none");
      });
      choose();
    });
    search.addEventListener("input", choose);
    back.addEventListener("click", () => { leaf -= 1; draw(); });
    on.addEventListener("click", () => { leaf += 1; draw(); });
    find(".controls").hidden = false;
    draw();
  }

  function copying(button) {
    const text = document.getElementById(button.dataset.copy);
    const name = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.innerText);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = name; }, 2000);
      } catch {
        getSelection().selectAllChildren(text); // where copying is not allowed, the text is marked for Ctrl+C
      }
    });
  }

  document.querySelectorAll("section.table").forEach(enliven);
  document.querySelectorAll("button.copy").forEach(copying);
})();
