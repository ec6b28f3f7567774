"use strict";
// Shows attention maps in HTML files, reports and the server's page. All numbers come from attention_map.py; this file
// decides only positions and colours. The opacity of a line or cell is its weight.
(() => {
  const KINDS = {encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention"};
  const FORMS = {lines: "Lines", matrix: "Matrix", overview: "All heads"};
  const SMALLEST = 0.00005; // smaller weights round to 0 at four decimal places
  const SVG = "http://www.w3.org/2000/svg";
  let views = 0;

  // Returns an element. Texts become text nodes, so that nothing in them is read as HTML.
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  function draw(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  const colorClass = (head) => `head-${head % 8}`;
  const range = (number) => Array.from({length: number}, (_, place) => place);

  class AttentionView {
    // data: see attention_map.py. Only `load` reads the maps of its sentences.
    // load(sentence, kind, layer): returns a promise of a map with `tokens` and, if these differ, `words`.
    constructor(root, data, load) {
      this.root = root;
      this.data = data;
      this.load = load;
      this.id = `attention-${++views}`;
      const shown = data.shown || {};
      const kind = shown.kind || (data.layers.cross ? "cross" : Object.keys(data.layers)[0]);
      this.state = {
        sentence: 0,
        kind,
        layer: data.first[kind],
        form: shown.form || "lines",
        words: shown.words ?? true,
        heads: new Set(shown.heads || range(data.heads[kind])),
      };
      this.pinned = shown.query === undefined || shown.query === null ? null : {side: "queries", place: shown.query};
      this.controls = make("div", {class: "attention-controls no-print"});
      this.caption = make("figcaption", {class: "attention-caption"});
      this.figure = make("figure", {class: "attention-figure"}, this.caption);
      this.said = make("p", {class: "attention-said no-print", "aria-live": "polite"});
      root.replaceChildren(this.controls, this.figure, this.said);
      this.showControls();
      this.show();
    }

    // Controls

    showControls() {
      const {data, state} = this;
      const parts = [];
      if (data.sentences.length > 1) {
        const texts = data.sentences.map((each, place) => [place, `${place + 1}  ${each.input}`]);
        parts.push(this.select("Sentence", texts, state.sentence, (value) => this.change({sentence: Number(value)}, true)));
      }
      const kinds = Object.keys(data.layers).map((kind) => [kind, KINDS[kind]]);
      parts.push(this.select("Attention", kinds, state.kind, (value) => this.change(this.ofKind(value), true)));
      const layers = data.layers[state.kind].map((layer) => [layer, String(layer)]);
      if (state.form !== "overview") {
        parts.push(this.select("Layer", layers, state.layer, (value) => this.change({layer: Number(value)})));
      }
      parts.push(this.forms(), this.unit());
      if (state.form !== "overview") parts.push(this.headBoxes());
      const active = document.activeElement;
      const key = active && this.controls.contains(active) ? active.dataset.key : null;
      this.controls.replaceChildren(...parts);
      if (key) this.controls.querySelector(`[data-key="${key}"]`)?.focus();
    }

    ofKind(kind) {
      const {data, state} = this;
      const layer = data.layers[kind].includes(state.layer) ? state.layer : data.first[kind];
      const heads = [...state.heads].filter((head) => head < data.heads[kind]);
      return {kind, layer, heads: new Set(heads.length ? heads : range(data.heads[kind]))};
    }

    select(label, options, chosen, onChoice) {
      const choices = options.map(([value, text]) => make("option", {value, selected: value === chosen}, text));
      const choice = make("select", {"data-key": label, onchange: () => onChoice(choice.value)}, ...choices);
      return make("label", {class: "attention-choice"}, `${label} `, choice);
    }

    forms() {
      const buttons = Object.entries(FORMS).map(([form, text]) => make("button", {
        type: "button", "data-key": form, "aria-pressed": String(this.state.form === form),
        onclick: () => this.change({form}, true),
      }, text));
      return make("div", {class: "attention-forms", role: "group", "aria-label": "Form"}, ...buttons);
    }

    unit() {
      const box = make("input", {
        type: "checkbox", "data-key": "words", checked: this.state.words, onchange: () => this.change({words: box.checked}),
      });
      return make("label", {class: "attention-choice"}, box, " whole words");
    }

    headBoxes() {
      const {data, state} = this;
      const boxes = range(data.heads[state.kind]).map((head) => {
        const box = make("input", {
          type: "checkbox", "data-key": `head ${head}`, checked: state.heads.has(head),
          onchange: () => {
            if (box.checked) state.heads.add(head);
            else state.heads.delete(head);
            this.change({});
          },
        });
        return make("label", {class: `attention-head ${colorClass(head)}`}, box, ` ${head}`);
      });
      const all = make("button", {
        type: "button", "data-key": "all heads", onclick: () => {
          const every = range(data.heads[state.kind]);
          this.change({heads: new Set(state.heads.size === every.length ? [] : every)}, true);
        },
      }, "all / none");
      return make("fieldset", {class: "attention-heads"}, make("legend", {}, "Heads"), ...boxes, all);
    }

    change(changes, withControls = false) {
      // A token stays pinned only while the picture has the same tokens.
      if ("sentence" in changes || "kind" in changes || "words" in changes) this.pinned = null;
      Object.assign(this.state, changes);
      if (withControls) this.showControls();
      return this.show();
    }

    // Shows other sentences from the same model, for example after the text on the page has changed.
    replace(data) {
      this.data = data;
      this.pinned = null;
      this.state.sentence = 0;
      this.showControls();
      return this.show();
    }

    // The picture

    async show() {
      const {state} = this;
      const asked = (this.asked = {});
      let parts;
      let view = null;
      try {
        if (state.form === "overview") parts = await this.overview();
        else {
          view = await this.view(state.layer);
          parts = this.layer(view);
        }
      } catch (error) {
        parts = [make("p", {class: "error", role: "alert"}, error.message)];
      }
      if (this.asked !== asked) return; // something else has been chosen in the meantime
      this.current = view;
      const {input, output} = this.data.sentences[state.sentence];
      const what = state.form === "overview" ? "all heads" : `layer ${state.layer}, heads ${[...state.heads].sort((a, b) => a - b).join(", ") || "none"}`;
      this.caption.replaceChildren(`${KINDS[state.kind]}, ${what}`, make("br"), make("span", {class: "muted"}, `${input} → ${output}`));
      this.figure.replaceChildren(this.caption, ...parts);
      this.said.textContent = "";
      if (state.form === "lines") this.highlight(this.pinned);
    }

    async view(layer) {
      const {sentence, kind, words} = this.state;
      const map = await this.load(sentence, kind, layer);
      return (words && map.words) || map.tokens;
    }

    layer(view) {
      const heads = [...this.state.heads].sort((a, b) => a - b);
      if (this.state.form === "lines") return [this.lines(view, heads)];
      return [make("div", {class: "attention-matrices"}, ...heads.map((head) => this.matrix(view, head)))];
    }

    // Returns a drawing like the paper's: two columns of tokens, joined by lines.
    lines(view, heads) {
      const rows = Math.max(view.queries.length, view.keys.length);
      const svg = draw("svg", {viewBox: `0 0 100 ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "attention-lines"});
      for (const head of heads) {
        view.weights[head].forEach((weights, query) => weights.forEach((weight, key) => {
          if (weight < SMALLEST) return;
          svg.append(draw("line", {
            x1: 0, y1: query + 0.5, x2: 100, y2: key + 0.5, class: colorClass(head), "stroke-opacity": weight,
            "data-head": head, "data-query": query, "data-key": key,
          }));
        }));
      }
      const columns = [this.column("queries", view.queries), svg, this.column("keys", view.keys)];
      const drawing = make("div", {class: "attention-drawing"}, ...columns);
      drawing.style.setProperty("--rows", rows);
      drawing.style.setProperty("--heads", heads.length);
      return drawing;
    }

    column(side, labels) {
      const column = make("div", {class: `attention-column ${side}`, role: "group", "aria-label": side === "queries" ? "Queries" : "Keys"});
      labels.forEach((label, place) => {
        const here = {side, place};
        column.append(make("button", {
          type: "button", class: "attention-token", tabindex: place ? "-1" : "0", "aria-pressed": "false", dir: "auto",
          onmouseenter: () => this.highlight(here), onmouseleave: () => this.highlight(this.pinned),
          onfocus: () => this.highlight(here), onblur: () => this.highlight(this.pinned),
          onclick: () => {
            this.pinned = this.isPinned(here) ? null : here;
            this.highlight(this.pinned || here);
          },
          onkeydown: (event) => this.move(event, side, place),
        }, make("span", {class: "attention-label"}, label), make("span", {class: "attention-boxes", "aria-hidden": "true"})));
      });
      return column;
    }

    isPinned({side, place}) {
      return this.pinned !== null && this.pinned.side === side && this.pinned.place === place;
    }

    // The arrow keys move from token to token, so that each column is a single stop for the Tab key.
    move(event, side, place) {
      const tokens = (name) => [...this.figure.querySelectorAll(`.${name} .attention-token`)];
      const here = tokens(side);
      const other = side === "queries" ? "keys" : "queries";
      const targets = {
        ArrowUp: here[place - 1], ArrowDown: here[place + 1], Home: here[0], End: here[here.length - 1],
        ArrowRight: side === "queries" ? tokens(other)[Math.min(place, tokens(other).length - 1)] : undefined,
        ArrowLeft: side === "keys" ? tokens(other)[Math.min(place, tokens(other).length - 1)] : undefined,
      };
      if (event.key === "Escape") {
        this.pinned = null;
        this.highlight(null);
      } else if (event.key in targets) {
        event.preventDefault();
        const target = targets[event.key];
        if (!target) return;
        for (const token of [...target.parentElement.children]) token.tabIndex = token === target ? 0 : -1;
        target.focus();
      }
    }

    // Shows only the lines of one token; null: all lines.
    highlight(chosen) {
      const svg = this.figure.querySelector(".attention-lines");
      if (!svg || !this.current) return;
      const attribute = chosen && (chosen.side === "queries" ? "query" : "key");
      for (const line of svg.children) {
        line.classList.toggle("off", Boolean(chosen) && Number(line.dataset[attribute]) !== chosen.place);
      }
      for (const side of ["queries", "keys"]) {
        [...this.figure.querySelectorAll(`.${side} .attention-token`)].forEach((token, place) => {
          token.setAttribute("aria-pressed", String(this.isPinned({side, place})));
          token.classList.toggle("on", Boolean(chosen) && chosen.side === side && chosen.place === place);
          this.boxes(token.lastChild, chosen && chosen.side !== side ? this.weightsOf(chosen, place) : []);
        });
      }
      this.said.textContent = chosen ? this.described(chosen) : "";
    }

    // Returns [head, weight] for each shown head, between the chosen token and the one at `place` on the other side.
    weightsOf(chosen, place) {
      const {weights} = this.current;
      const [query, key] = chosen.side === "queries" ? [chosen.place, place] : [place, chosen.place];
      return [...this.state.heads].sort((a, b) => a - b).map((head) => [head, weights[head][query][key]]);
    }

    boxes(place, weights) {
      place.replaceChildren(...weights.map(([head, weight]) => {
        const box = make("span", {class: `attention-box ${colorClass(head)}`, title: `head ${head}: ${weight.toFixed(4)}`});
        box.style.opacity = weight;
        return box;
      }));
    }

    described(chosen) {
      const other = chosen.side === "queries" ? "keys" : "queries";
      const means = this.current[other].map((label, place) => {
        const weights = this.weightsOf(chosen, place).map(([, weight]) => weight);
        return [label, weights.reduce((sum, weight) => sum + weight, 0) / Math.max(1, weights.length)];
      });
      const top = means.sort((a, b) => b[1] - a[1]).slice(0, 3).map(([label, weight]) => `${label} ${weight.toFixed(2)}`);
      const arrow = chosen.side === "queries" ? "attends to" : "is attended to by";
      return `${this.current[chosen.side][chosen.place]} ${arrow} ${top.join(", ")} (mean of the heads shown)`;
    }

    matrix(view, head) {
      const size = 18;
      const length = (labels) => 8 + 7.5 * Math.max(...labels.map((label) => [...label].length));
      const left = length(view.queries);
      const top = length(view.keys);
      const width = left + size * view.keys.length + 4;
      const height = top + size * view.queries.length + 4;
      const name = `${KINDS[this.state.kind]}, layer ${this.state.layer}, head ${head}: use the arrow keys`;
      const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`, width, height, class: "attention-matrix", role: "img", "aria-label": name, tabindex: "0"});
      view.queries.forEach((label, query) => {
        const text = draw("text", {x: left - 5, y: top + size * (query + 0.72), "text-anchor": "end"});
        text.textContent = label;
        svg.append(text);
      });
      view.keys.forEach((label, key) => {
        const x = left + size * (key + 0.72);
        const text = draw("text", {x, y: top - 5, transform: `rotate(-90 ${x} ${top - 5})`});
        text.textContent = label;
        svg.append(text);
      });
      svg.append(draw("rect", {x: left, y: top, width: size * view.keys.length, height: size * view.queries.length, class: "attention-frame"}));
      view.weights[head].forEach((weights, query) => weights.forEach((weight, key) => {
        if (weight < SMALLEST) return;
        const cell = draw("rect", {
          x: left + size * key, y: top + size * query, width: size, height: size, class: colorClass(head), "fill-opacity": weight,
          "data-head": head, "data-query": query, "data-key": key,
        });
        cell.addEventListener("mouseenter", () => this.sayCell(view, head, query, key));
        svg.append(cell);
      }));
      this.addCursor(svg, view, head, [left, top, size]);
      return make("figure", {class: "attention-figure"}, make("figcaption", {class: "muted"}, `head ${head}`), svg);
    }

    addCursor(svg, view, head, [left, top, size]) {
      const cursor = draw("rect", {width: size, height: size, class: "attention-cursor"});
      svg.append(cursor);
      let [query, key] = [0, 0];
      const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
      const place = () => {
        cursor.setAttribute("x", left + size * key);
        cursor.setAttribute("y", top + size * query);
        this.sayCell(view, head, query, key);
      };
      svg.addEventListener("focus", place);
      svg.addEventListener("keydown", (event) => {
        if (!(event.key in moves)) return;
        event.preventDefault();
        const [down, right] = moves[event.key];
        query = Math.min(Math.max(query + down, 0), view.queries.length - 1);
        key = Math.min(Math.max(key + right, 0), view.keys.length - 1);
        place();
      });
    }

    sayCell(view, head, query, key) {
      this.said.textContent = `head ${head}: ${view.queries[query]} → ${view.keys[key]} ${view.weights[head][query][key].toFixed(4)}`;
    }

    // Shows each head of each layer of a kind as a thumbnail, with its measures.
    async overview() {
      const {data, state} = this;
      const layers = data.layers[state.kind];
      const loaded = await Promise.all(layers.map((layer) => this.view(layer)));
      const rows = layers.map((layer, row) => make(
        "div", {class: "attention-row", role: "group", "aria-label": `Layer ${layer}`},
        make("strong", {class: "attention-layer"}, `Layer ${layer}`),
        ...range(data.heads[state.kind]).map((head) => this.thumbnail(loaded[row], layer, head)),
      ));
      const measured = data.statistics.find((each) => each.kind === state.kind);
      const meanings = data.measures.filter((each) => measured && each.name in measured.uniform);
      const note = measured
        ? `Measured on ${measured.queries} tokens; the values for uniform attention are in brackets. ` +
          meanings.map((each) => `${each.label}: ${each.meaning}`).join("; ") + "."
        : "";
      return [...rows, make("p", {class: "muted"}, note)];
    }

    thumbnail(view, layer, head) {
      const picture = make("canvas", {width: view.keys.length, height: view.queries.length, "aria-hidden": "true"});
      const measured = this.data.statistics.find((each) => each.kind === this.state.kind && each.layer === layer);
      const thumbnail = make("button", {
        type: "button", class: "attention-thumbnail", onclick: () => this.change({form: "lines", layer, heads: new Set([head])}, true),
      }, make("strong", {class: colorClass(head)}, `head ${head}`), picture, ...this.measures(measured, head));
      paint(picture, view.weights[head], head);
      return thumbnail;
    }

    measures(measured, head) {
      if (!measured) return [];
      return this.data.measures.filter((each) => each.name in measured.uniform).map((each) => {
        const print = (value) => (each.is_share ? `${Math.round(100 * value)}%` : value.toFixed(2));
        return make("span", {class: "attention-measure"}, `${each.label} ${print(measured.heads[each.name][head])} (${print(measured.uniform[each.name])})`);
      });
    }
  }

  // Fills a canvas with the weights as opacity.
  function paint(canvas, weights, head) {
    const probe = make("span", {class: colorClass(head)});
    document.body.append(probe);
    const [red, green, blue] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    weights.flat().forEach((weight, place) => image.data.set([red, green, blue, Math.round(255 * weight)], 4 * place));
    context.putImageData(image, 0, 0);
  }

  // Shows the pictures of an HTML file, which contains their data.
  function showAll() {
    for (const root of document.querySelectorAll("[data-attention]")) {
      try {
        const data = JSON.parse(document.getElementById(root.dataset.attention).textContent);
        const find = async (sentence, kind, layer) =>
          data.sentences[sentence].maps.find((map) => map.kind === kind && map.layer === layer);
        new AttentionView(root, data, find);
      } catch (error) {
        root.replaceChildren(make("p", {class: "error"}, `This picture cannot be shown: ${error.message}`));
      }
    }
  }

  window.AttentionView = Object.assign(AttentionView, {make});
  document.addEventListener("DOMContentLoaded", showAll);
})();
