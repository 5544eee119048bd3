// Behaviour of the page. Everything that comes from the data is inserted as text, never as markup.
"use strict";
window.exploreReady = function ({nodes, ...map}) {
  const $ = (id) => document.getElementById(id);
  const about = JSON.parse($("about").textContent);
  const table = (source) => (source.data instanceof Map ? Object.fromEntries(source.data) : source.data);
  // Columns of words are added to those of numbers, so that tooltips find them.
  const words = {...about.words};
  for (const [key, {names, codes}] of Object.entries(about.classes)) words[key] = codes.map((code) => names[code] ?? "");
  for (const [key, column] of Object.entries(words)) {
    if (nodes.data instanceof Map) nodes.data.set(key, column); else nodes.data[key] = column;
  }
  const data = table(nodes);
  const count = data.node.length;
  const rowOf = new Map();
  for (let i = 0; i < count; i++) rowOf.set(data.node[i], i);
  const ROWS = 200; // rows of the table of selected nodes; the CSV file has all
  let colour = $("colour").value;

  // ------------------------------------------------------------------------------------------------ choosing
  const choose = (rows) => { nodes.selected.indices = rows; };
  const rowsOf = (numbers) => numbers.map((node) => rowOf.get(node)).filter((row) => row !== undefined);
  const rowsWhere = (test) => { const rows = []; for (let i = 0; i < count; i++) if (test(i)) rows.push(i); return rows; };

  function show(rows) {
    choose(rows);
    if (!rows.length) return;
    let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const i of rows) {
      left = Math.min(left, data.x[i]); right = Math.max(right, data.x[i]);
      bottom = Math.min(bottom, data.y[i]); top = Math.max(top, data.y[i]);
    }
    const least = 0.12 * about.span;
    const half = Math.max(right - left, top - bottom, least) * 0.62;
    const [x, y] = [(left + right) / 2, (bottom + top) / 2];
    // If the selected nodes are spread over the map, show all of it.
    if (2 * half > 0.8 * about.span) map.plot.reset.emit();
    else {
      const wide = Math.max(1, map.plot.inner_width / Math.max(1, map.plot.inner_height));
      const high = Math.max(1, map.plot.inner_height / Math.max(1, map.plot.inner_width));
      // Otherwise Bokeh resets the ranges when something else on the map changes.
      map.plot.x_range.have_updated_interactively = map.plot.y_range.have_updated_interactively = true;
      map.plot.x_range.setv({start: x - half * wide, end: x + half * wide});
      map.plot.y_range.setv({start: y - half * high, end: y + half * high});
    }
    choose(rows);
    $("map").scrollIntoView({behavior: "smooth", block: "start"});
  }

  // ------------------------------------------------------------------------------------------------ the table
  const columns = about.columns.filter((column) => column.key in data);
  const value = (column, i) => {
    const found = data[column.key][i];
    if (found === null || found === undefined || (typeof found === "number" && !isFinite(found))) return "";
    return column.digits == null ? String(found) : Number(found).toFixed(column.digits);
  };

  function cell(row, tag, text, className) {
    const element = document.createElement(tag);
    element.textContent = text;
    if (className) element.className = className;
    row.appendChild(element);
    return element;
  }

  function fillTable() {
    const rows = nodes.selected.indices;
    $("count").textContent = rows.length.toLocaleString("en");
    for (const id of ["copy", "download", "clear"]) $(id).disabled = !rows.length;
    const list = $("rows");
    list.hidden = !rows.length;
    $("hint").hidden = rows.length > 0 && rows.length <= ROWS;
    if (rows.length > ROWS) $("hint").textContent = `These are the first ${ROWS}; the CSV file has all.`;
    else if (!rows.length) $("hint").textContent = about.hint;
    const wanted = columns.filter((column) => ["node", "label", "text", "image_name", colour === "cluster" ? "cluster_name" : colour].includes(column.key));
    list.tHead.replaceChildren();
    const head = list.tHead.insertRow();
    for (const column of wanted) cell(head, "th", column.title, column.digits == null ? "" : "number");
    const body = document.createElement("tbody");
    for (const i of rows.slice(0, ROWS)) {
      const row = body.insertRow();
      for (const column of wanted) {
        if (column.key !== "node") { cell(row, "td", value(column, i), column.digits == null ? "" : "number"); continue; }
        const place = cell(row, "td", "");
        if (data.picture && data.picture[i]) place.appendChild(thumb(i));
        const button = document.createElement("button");
        button.type = "button"; button.className = "node"; button.textContent = String(data.node[i]);
        button.addEventListener("click", () => show([i]));
        place.appendChild(button);
      }
    }
    list.tBodies[0].replaceWith(body);
  }

  function thumb(i) {
    const image = document.createElement("img");
    image.className = "thumb"; image.alt = "";
    image.src = "data:image/webp;base64," + data.picture[i];
    return image;
  }

  function download(name, lines) {
    const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const text = lines.map((line) => line.map(quote).join(",") + "\r\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  $("download").addEventListener("click", () => {
    const word = (found) => (found === null || found === undefined || Number.isNaN(found) ? "" : String(found));
    const lines = nodes.selected.indices.map((i) => columns.map((column) => word(data[column.key][i])));
    download("chosen.csv", [columns.map((column) => column.key), ...lines]);
  });

  $("copy").addEventListener("click", async () => {
    const text = nodes.selected.indices.map((i) => data.node[i]).join("\n");
    try { await navigator.clipboard.writeText(text); }
    catch { // some browsers forbid the clipboard to pages opened from a file
      const area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select(); document.execCommand("copy"); area.remove();
    }
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy ids"; }, 1200);
  });

  $("clear").addEventListener("click", () => { $("search").value = ""; $("found").textContent = ""; choose([]); map.plot.reset.emit(); });

  // ------------------------------------------------------------------------------------------------ search
  function search() {
    const query = $("search").value.trim();
    if (!query) { $("found").textContent = ""; choose([]); return; }
    const lower = query.toLowerCase();
    const has = (key, i) => data[key] && data[key][i] != null && data[key][i].toLowerCase().includes(lower);
    let rows = rowsWhere((i) => String(data.node[i]) === query || (data.label && data.label[i] === query));
    if (!rows.length) rows = rowsWhere((i) => has("label", i) || has("cluster_name", i) || has("image_name", i) || has("text", i));
    $("found").textContent = rows.length === 1 ? "1 node" : `${rows.length.toLocaleString("en")} nodes`;
    choose(rows);
  }
  let waiting;
  $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") { clearTimeout(waiting); search(); show(nodes.selected.indices); }
  });

  // ------------------------------------------------------------------------------------------------ colours
  function paint() {
    colour = $("colour").value;
    const {field, palette, low, high, scale} = about.ways[colour];
    map.mapper.setv({palette, low, high});
    map.points.glyph.fill_color = {field, transform: map.mapper};
    map.points.selection_glyph.fill_color = {field, transform: map.mapper};
    map.bar.visible = scale;
    document.body.dataset.colour = colour;
    for (const legend of document.querySelectorAll(".legend")) legend.hidden = legend.dataset.colour !== colour;
    fillTable();
  }
  $("colour").addEventListener("change", paint);

  // ------------------------------------------------------------------------------------------------ names of clusters
  // The finest level of which half of the names in view fit, or the first with more than a few names on a small screen.
  // Names that would overlap a larger cluster's are left out.
  const FEW_NAMES = 8;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = about.font;
  function fitNames(level) {
    const {x_range, y_range, inner_width, inner_height} = map.plot;
    const [wide, high] = [inner_width / (x_range.end - x_range.start), inner_height / (y_range.end - y_range.start)];
    const boxes = [];
    let inView = 0;
    for (const {row, text, picture} of level) {
      let [x, y] = [(data.x[row] - x_range.start) * wide, (data.y[row] - y_range.start) * high];
      if (!(x >= 0 && x <= inner_width && y >= 0 && y <= inner_height)) continue;
      inView += 1;
      const half = about.picture_size / 2 + 2;
      const [w, h] = text === undefined ? [half, half] : [pen.measureText(text).width / 2 + 4, 10];
      if (text !== undefined) y += 12; // above the middle of the cluster
      x = Math.max(w, Math.min(inner_width - w, x)); y = Math.max(h, Math.min(inner_height - h, y));
      if (boxes.some((box) => Math.abs(box.left - x) < box.w + w && Math.abs(box.up - y) < box.h + h)) continue;
      boxes.push({left: x, up: y, w, h, x: x / wide + x_range.start, y: y / high + y_range.start, text, picture});
    }
    return {boxes, fits: boxes.length >= inView / 2};
  }
  function writeNames() {
    let [{boxes}, ...finer] = about.names.map(fitNames);
    for (const level of finer) {
      if (!level.fits && (boxes.length >= FEW_NAMES || level.boxes.length <= boxes.length)) break;
      boxes = level.boxes;
    }
    const fill = (source, chosen, key, value) => {
      source.data = {x: chosen.map((box) => box.x), y: chosen.map((box) => box.y), [key]: chosen.map(value)};
    };
    fill(map.names, boxes.filter((box) => box.text !== undefined), "text", (box) => box.text);
    const drawn = boxes.filter((box) => box.picture !== undefined && data.picture[box.picture]);
    if (drawn.length) fill(map.pictures, drawn, "url", (box) => "data:image/webp;base64," + data.picture[box.picture]);
  }
  let asked = 0;
  const askNames = () => { cancelAnimationFrame(asked); asked = requestAnimationFrame(writeNames); };
  if (about.names.length) {
    for (const range of [map.plot.x_range, map.plot.y_range]) range.change.connect(askNames);
    for (const side of ["inner_width", "inner_height"]) map.plot.properties[side].change.connect(askNames);
    askNames();
  }

  // ------------------------------------------------------------------------------------------------ histograms
  // Each bar has a blue copy in front of it, cut to the share of its nodes that are selected.
  const histograms = Object.entries(about.histograms).map(([key, {edges, counts}]) => {
    const bars = counts.map((count, i) => {
      const bar = document.getElementById(`keep-bar-${key}-${i}`), front = bar.cloneNode(true);
      front.removeAttribute("id");
      front.firstElementChild.style.fill = "#0072b2";
      bar.after(front);
      for (const one of [bar, front]) {
        const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
        title.textContent = `${edges[i].toFixed(2)} to ${edges[i + 1].toFixed(2)}: ${count.toLocaleString("en")} nodes`;
        one.appendChild(title);
      }
      return front.firstElementChild;
    });
    return {key, edges, counts, bars};
  });
  function fillHistograms() {
    for (const {key, edges, counts, bars} of histograms) {
      const chosen = new Array(bars.length).fill(0), width = edges[1] - edges[0];
      for (const i of nodes.selected.indices) {
        const found = data[key][i];
        if (!Number.isNaN(found)) chosen[Math.max(0, Math.min(bars.length - 1, Math.floor((found - edges[0]) / width)))] += 1;
      }
      bars.forEach((bar, i) => { bar.style.clipPath = `inset(${100 * (1 - chosen[i] / Math.max(1, counts[i]))}% 0 0 0)`; });
    }
  }
  fillHistograms();
  for (const {key, edges} of histograms) {
    const figure = document.querySelector(`figure[data-key="${key}"]`), area = document.getElementById(`keep-area-${key}`);
    const valueAt = (event) => {
      const box = area.getBoundingClientRect();
      return edges[0] + (event.clientX - box.left) / box.width * (edges.at(-1) - edges[0]);
    };
    let from = null;
    figure.addEventListener("pointerdown", (event) => { from = valueAt(event); });
    document.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = valueAt(event), least = edges[1] - edges[0];
      const [low, high] = Math.abs(to - from) < least ? [from - least / 2, from + least / 2] : [Math.min(from, to), Math.max(from, to)];
      from = null;
      window.exploreRange(key, low, high);
    });
  }
  window.exploreNearest = ({data_source, vars}) => {
    const away = (i) => (data.x[i] - vars.x) ** 2 + (data.y[i] - vars.y) ** 2;
    return !data_source.inspected.indices.some((other) => away(other) < away(vars.index));
  };
  window.exploreRange = (key, from, to) => {
    const high = to >= about.histograms[key].edges.at(-1) ? Infinity : to; // the last bar counts everything beyond the axis
    choose(rowsWhere((i) => data[key][i] >= from && data[key][i] <= high));
  };

  // ------------------------------------------------------------------------------------------------ clicks
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button, tr[data-cluster]");
    if (!button) return;
    if (button.dataset.nodes !== undefined) show(rowsOf(button.dataset.nodes.split(",").map(Number)));
    else if (button.dataset.cluster !== undefined) show(rowsWhere((i) => data.cluster[i] === Number(button.dataset.cluster)));
    else if (button.dataset.label !== undefined) show(rowsWhere((i) => data.label[i] === button.dataset.label));
    else if (button.dataset.code !== undefined) {
      const values = data[about.ways[colour].field], code = Number(button.dataset.code);
      choose(rowsWhere((i) => values[i] === code));
    }
  });
  // ------------------------------------------------------------------------------------------------ review of labels
  function reviewLabels({key, nodes: suspects, supporters, classes, decisions: earlier}) {
    const CHUNK = 100, body = $("suspects"), store = `asbc-explore ${key}`;
    const decisions = new Map(Object.entries(earlier).map(([node, decision]) => [Number(node), decision]));
    try { for (const [node, one] of JSON.parse(localStorage.getItem(store) ?? "[]")) one ? decisions.set(node, one) : decisions.delete(node); }
    catch { /* no storage: decisions last until the page is closed */ }
    let current = -1;
    for (const name of classes) $("classes").appendChild(Object.assign(document.createElement("option"), {value: name}));
    const make = (tag, className, text) => Object.assign(document.createElement(tag), {className, textContent: text ?? ""});
    function reference(node) {
      const ref = make("span", "ref"), row = rowOf.get(node);
      if (data.picture && data.picture[row]) ref.appendChild(thumb(row));
      const button = make("button", "node", String(node));
      button.type = "button"; button.dataset.nodes = String(node); button.title = "show on the map";
      ref.append(button);
      if (data.text) ref.append(" ", make("span", "snippet", data.text[row]));
      return ref;
    }
    function decisionCell(place) {
      const cell = make("td", "decision");
      for (const [key, name] of [["accept", "Accept"], ["keep", "Keep"], ["other", "Other"], ["skip", "Skip"]]) {
        const button = make("button", key, name);
        button.type = "button";
        button.addEventListener("click", (event) => { event.stopPropagation(); select(place); act(key); });
        cell.appendChild(button);
      }
      return cell;
    }
    function addRow(place) {
      const node = suspects[place], row = rowOf.get(node), line = body.insertRow();
      line.insertCell().append(reference(node));
      line.insertCell().append(make("span", "tag", decisions.get(node)?.given ?? data.label[row]));
      line.insertCell().append(make("span", "tag good", data.suggested[row]));
      const meter = make("span", "meter"), level = document.createElement("i"), number = line.insertCell();
      level.style.width = `${(100 * data.suspicion[row]).toFixed(1)}%`;
      meter.appendChild(level); number.className = "number"; number.append(meter, " " + data.suspicion[row].toFixed(2));
      line.append(decisionCell(place));
      const around = line.insertCell(), all = make("button", "link", "show");
      around.className = "members"; all.type = "button"; all.dataset.nodes = [node, ...supporters[place]].join(",");
      around.append(...supporters[place].map(reference), all);
      line.addEventListener("click", () => select(place));
      mark(place);
    }
    function fill(until) { while (body.rows.length < Math.min(until, suspects.length)) addRow(body.rows.length); }
    function mark(place) {
      const line = body.rows[place], decision = decisions.get(suspects[place]);
      line.dataset.decision = decision?.decision ?? "";
      for (const button of line.querySelectorAll(".decision button")) button.setAttribute("aria-pressed", button.className === decision?.decision);
      line.querySelector(".chosen-label")?.remove();
      if (decision?.decision === "other") line.querySelector(".decision").append(make("span", "tag good chosen-label", decision.label));
    }
    function select(place) {
      if (place < 0 || place >= suspects.length) return;
      fill(place + CHUNK / 2);
      body.rows[current]?.classList.remove("current");
      current = place;
      body.rows[current].classList.add("current");
      const box = body.closest(".scroll"), line = body.rows[current];
      box.scrollTop = Math.max(0, line.offsetTop - box.clientHeight / 3);
    }
    function save() {
      const counts = {accept: 0, keep: 0, other: 0};
      for (const {decision} of decisions.values()) counts[decision] = (counts[decision] ?? 0) + 1;
      $("decided").textContent = `${decisions.size.toLocaleString("en")} decided: ${counts.accept} accepted, ${counts.keep} kept, ${counts.other} other`;
      for (const id of ["export", "forget"]) $(id).disabled = !decisions.size;
      const gone = Object.keys(earlier).map(Number).filter((node) => !decisions.has(node)).map((node) => [node, null]);
      try { localStorage.setItem(store, JSON.stringify([...decisions, ...gone])); } catch { /* as above */ }
    }
    function decide(place, decision, label) {
      const node = suspects[place], given = decisions.get(node)?.given ?? earlier[node]?.given ?? data.label[rowOf.get(node)];
      if (decision === "skip") decisions.delete(node);
      else decisions.set(node, {given, decision, label: decision === "keep" ? given : label});
      mark(place); save(); select(Math.min(place + 1, suspects.length - 1)); $("review").focus({preventScroll: true});
    }
    function act(decision) {
      const place = current;
      if (decision !== "other") { decide(place, decision, data.suggested[rowOf.get(suspects[place])]); return; }
      const cell = body.rows[place].querySelector(".decision");
      if (cell.querySelector("input")) return;
      const input = make("input", "");
      input.setAttribute("list", "classes"); input.placeholder = "label"; input.setAttribute("aria-label", "another label");
      input.addEventListener("keydown", (event) => {
        event.stopPropagation();
        if (event.key === "Escape" || (event.key === "Enter" && !input.value.trim())) { input.remove(); $("review").focus({preventScroll: true}); }
        else if (event.key === "Enter") { event.preventDefault(); const label = input.value.trim(); input.remove(); decide(place, "other", label); }
      });
      cell.appendChild(input); input.focus({preventScroll: true});
    }
    const KEYS = {a: () => act("accept"), k: () => act("keep"), o: () => act("other"), s: () => act("skip"),
      ArrowDown: () => select(current + 1), ArrowUp: () => select(current - 1)};
    $("review").addEventListener("keydown", (event) => {
      const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
    body.closest(".scroll").addEventListener("scroll", ({target}) => {
      if (target.scrollTop + 2 * target.clientHeight > target.scrollHeight) fill(body.rows.length + CHUNK);
    });
    $("export").addEventListener("click", () => {
      const lines = [...decisions].sort(([a], [b]) => a - b).map(([node, one]) => [String(node), one.given, one.decision, one.label]);
      download("corrections.csv", [["node", "given", "decision", "label"], ...lines]);
    });
    $("forget").addEventListener("click", () => {
      decisions.clear(); save();
      for (let place = 0; place < body.rows.length; place++) mark(place);
    });
    fill(CHUNK); select(0); save();
  }

  for (const image of document.querySelectorAll("img[data-picture]")) {
    const row = rowOf.get(Number(image.dataset.picture));
    if (row !== undefined) image.replaceWith(thumb(row));
  }
  if ($("review")) reviewLabels(about.review);
  nodes.selected.change.connect(() => { fillTable(); fillHistograms(); });
  document.body.dataset.colour = colour;
  about.hint = $("hint").textContent;
  document.body.dataset.ready = "yes";
};
