"use strict";
// The server's page. Texts enter the document only as text nodes and attributes, never as HTML.
(() => {
  const DELAY = 300; // milliseconds from the last keystroke until the text is sent
  const POLL = 1000; // milliseconds between questions whether the models are loaded
  const PATIENCE = 500; // milliseconds of a search until the page says that it is under way
  let {models, measures, ready} = JSON.parse(document.getElementById("page-data").textContent);
  const find = (id) => document.getElementById(id);
  const {make} = AttentionView;
  // A header holds bytes: those of UTF-8, each as a character.
  const inBytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));
  const [textBox, modelBox, output, errorLine, status] = ["text", "model", "output", "error", "status"].map(find);
  // A line is a sentence of the text. between: the whitespace and list numbers around the lines. chosen: the index of
  // the hypothesis shown for each line.
  const state = {results: [], between: [""], line: 0, chosen: [], prefixes: [], settings: {}};
  let timer = null;
  let running = null; // the controller of the request in progress
  let working = null; // the timer of PATIENCE
  let attention = null;

  const model = () => models.find((each) => each.name === modelBox.value) || models[0];

  async function ask(path, content, signal) {
    const headers = {"Content-Type": "application/json"};
    const key = find("key");
    if (key && key.value) headers.Authorization = `Bearer ${inBytes(key.value)}`;
    let response;
    try {
      response = await fetch(path, {method: "POST", headers, body: JSON.stringify(content), signal});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("the server does not answer");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error || `the server answered ${response.status}`);
    return answer;
  }

  // Translation

  function schedule() {
    clearTimeout(timer);
    timer = setTimeout(translate, DELAY);
    output.setAttribute("aria-busy", "true"); // the output on the page is for an earlier text
  }

  function request() {
    const content = {inputs: textBox.value, split: true, model: model().name, num_hypotheses: wanted(), scores: true, settings: state.settings};
    if (model().kind === "parsing") return ["v1/parse", {...content, tokenizer: "treebank", drawing: true}];
    if (model().alignments) content.alignments = true;
    if (state.prefixes.some(Boolean)) content.prefixes = state.prefixes;
    return ["v1/translate", content];
  }

  // The server widens the beam for more hypotheses, unless its size is set here or cannot be changed by requests.
  function wanted() {
    const {settings, beam_size: usual, max_beam_size: widest} = model();
    const most = Object.hasOwn(state.settings, "beam_size") ? state.settings.beam_size : "beam_size" in settings ? widest : usual;
    return Math.max(1, Math.min(Number(find("num-hypotheses")?.value) || 4, most, widest));
  }

  async function translate() {
    clearTimeout(timer);
    timer = null;
    if (running) running.abort();
    running = null;
    showWork(false);
    if (!textBox.value.trim()) {
      Object.assign(state, {results: [], between: [""]});
      output.setAttribute("aria-busy", "false");
      showError("");
      return show();
    }
    const mine = (running = new AbortController());
    output.setAttribute("aria-busy", "true");
    showWork(true);
    try {
      const answer = await ask(...request(), mine.signal);
      if (running !== mine) return;
      Object.assign(state, {results: answer.results, between: answer.between});
      state.line = Math.max(0, Math.min(state.line, state.results.length - 1));
      state.chosen = [];
      showError("");
      show();
    } catch (error) {
      if (running === mine && error.name !== "AbortError") showError(error.message);
    }
    if (running !== mine) return;
    if (!timer) output.setAttribute("aria-busy", "false");
    showWork(false);
  }

  // Shows that a search is under way, if it takes long.
  function showWork(isRunning) {
    clearTimeout(working);
    const what = model().kind === "parsing" ? "parsing" : "translating";
    const show = () => find("working").replaceChildren(make("progress", {"aria-hidden": "true"}), ` ${what}…`);
    if (isRunning) working = setTimeout(show, PATIENCE);
    else find("working").replaceChildren();
  }

  function showError(message) {
    errorLine.textContent = message;
  }

  // Output

  // The line as the model reads it: a parser's words are separated by spaces.
  const readLine = (line) => state.results[line].inputs;
  const chosenOf = (line) => state.chosen[line] || 0;
  const joined = () => state.between.map((blanks, line) => (line ? shownOf(line - 1).text : "") + blanks).join("");
  const shownOf = (line) => state.results[line].hypotheses[chosenOf(line)];

  function show() {
    const focused = document.activeElement?.dataset?.place;
    output.replaceChildren(...state.results.map((_, line) => showLine(line)));
    if (focused) output.querySelector(`[data-place="${focused}"]`)?.focus();
    find("release").hidden = !state.prefixes.some(Boolean);
    showHypotheses();
    showAttention();
  }

  function showLine(line) {
    const {text, alignment} = shownOf(line);
    const choose = () => chooseLine(line);
    const element = make("div", {class: line === state.line ? "line chosen" : "line", onclick: choose, onfocusin: choose});
    if (model().kind === "parsing") {
      element.append(...tree(line, text), ...cutNote(line));
      return element;
    }
    const links = (alignment || "").split(" ").filter(Boolean).map((link) => link.split("-").map(Number));
    const sources = wordsOf(readLine(line)).map((word) => make("span", {}, word));
    const kept = wordsOf(state.prefixes[line] || "").length;
    const targets = wordsOf(text).map((word, place) => make("button", {
      type: "button", class: place < kept ? "word kept" : "word", "data-place": `${line}:${place}`,
      title: "keep the translation up to this word", onclick: () => keep(line, place),
    }, word));
    for (const [from, to] of links) link(sources, targets, from, to, links);
    if (alignment) element.append(make("p", {class: "source", dir: "auto"}, ...spaced(sources)));
    element.append(make("p", {dir: "auto"}, ...spaced(targets)), ...cutNote(line));
    return element;
  }

  function cutNote(line) {
    return shownOf(line).cut ? [make("p", {class: "cut"}, "This output is not complete: it was cut at the maximum length.")] : [];
  }

  const wordsOf = (text) => text.split(/\s+/).filter(Boolean);
  const spaced = (elements) => elements.flatMap((element) => [element, " "]);

  // Marks the aligned words on the other side while the pointer or the focus is on a word.
  function link(sources, targets, from, to, links) {
    if (!sources[from] || !targets[to]) return;
    const both = [sources[from], targets[to]];
    const mark = (element, others, on) => {
      for (const other of others) other.classList.toggle("aligned", on);
    };
    const ofSource = links.filter(([other]) => other === from).map(([, other]) => targets[other]).filter(Boolean);
    for (const [element, others] of [[both[0], [both[0], ...ofSource]], [both[1], both]]) {
      element.addEventListener("mouseenter", () => mark(element, others, true));
      element.addEventListener("mouseleave", () => mark(element, others, false));
    }
    both[1].addEventListener("focus", () => mark(both[1], both, true));
    both[1].addEventListener("blur", () => mark(both[1], both, false));
    both[1].setAttribute("aria-description", `from ${both[0].textContent}`);
  }

  function tree(line, text) {
    const drawing = chosenOf(line) ? null : state.results[line].drawing; // only the best tree has a drawing
    const parts = [make("p", {class: "brackets"}, text)];
    if (drawing) {
      const picture = make("img", {class: "tree", alt: `The tree ${text}`, src: `data:image/svg+xml,${encodeURIComponent(drawing)}`});
      parts.push(make("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": "Picture of the tree"}, picture));
    }
    return parts;
  }

  function chooseLine(line) {
    if (line === state.line || !state.results[line]) return;
    state.line = line;
    [...output.children].forEach((element, place) => element.classList.toggle("chosen", place === line));
    showHypotheses();
    showAttention();
  }

  function keep(line, place) {
    state.prefixes = state.results.map((_, other) => state.prefixes[other] || "");
    state.prefixes[line] = wordsOf(shownOf(line).text).slice(0, place + 1).join(" ");
    state.line = line;
    say("kept; the rest is translated again");
    translate();
  }

  function showHypotheses() {
    const result = state.results[state.line];
    find("more").hidden = false;
    find("alternatives").hidden = !result || !result.hypotheses[0].text;
    if (!result) return;
    find("hypotheses").replaceChildren(...result.hypotheses.map((each, place) => make("li", {}, make("button", {
      type: "button", "aria-pressed": String(place === chosenOf(state.line)), dir: "auto",
      onclick: () => {
        state.chosen[state.line] = place;
        show();
        find("hypotheses").children[place]?.firstChild.focus();
      },
    }, each.text), " ", make("span", {class: "scores"}, `score ${each.score.toFixed(3)}, log-probability ${each.log_prob.toFixed(2)}`))));
  }

  // Attention

  function showAttention() {
    const panel = find("attention");
    const {attention: kinds} = model();
    if (!Object.keys(kinds).length) {
      find("attention-view").replaceChildren(make("p", {class: "muted"}, "The engine of this model returns no attention weights of single heads."));
      attention = null;
      return;
    }
    const [input, text] = state.results[state.line] ? [readLine(state.line), shownOf(state.line).text] : ["", ""];
    if (!input.trim() || !text || (attention && attention.name !== model().name)) {
      find("attention-view").replaceChildren();
      attention = null;
    }
    if (!panel.open || !input.trim() || !text) return;
    const data = attentionData(input, text);
    if (attention) {
      if (attention.input === input && attention.text === text) return;
      attention.abort.abort();
      Object.assign(attention, {input, text, maps: new Map(), data, abort: new AbortController()});
      attention.view.replace(data);
      return;
    }
    attention = {name: model().name, input, text, maps: new Map(), data, abort: new AbortController()};
    attention.view = new AttentionView(find("attention-view"), data, loadMap);
  }

  function attentionData(input, text) {
    const {attention: kinds, first_layer: first} = model();
    const layers = Object.fromEntries(Object.entries(kinds).map(([kind, each]) => [kind, [...Array(each.layers).keys()]]));
    const heads = Object.fromEntries(Object.entries(kinds).map(([kind, each]) => [kind, each.heads]));
    return {measures, layers, heads, first, statistics: [], sentences: [{input, output: text}]};
  }

  function loadMap(sentence, kind, layer) {
    // Keep the values for this text: `attention` may be for another text when the answer arrives.
    const {input, text, name, maps, data, abort} = attention;
    const key = `${kind} ${layer}`;
    if (!maps.has(key)) {
      const asked = ask("v1/attention", {inputs: input, targets: text, model: name, kind, layer}, abort.signal);
      maps.set(key, asked.then((answer) => {
        data.statistics.push(answer.statistics);
        return answer.map;
      }));
      asked.catch(() => maps.delete(key));
    }
    return maps.get(key);
  }

  // Settings

  function showSettings() {
    const {settings, max_beam_size: widest} = model();
    const number = make("input", {type: "number", id: "num-hypotheses", min: 1, max: widest, value: Math.min(4, widest), oninput: schedule});
    const fields = Object.entries(settings).map(([name, usual]) => field(name, usual));
    find("setting-fields").replaceChildren(make("label", {}, "alternatives ", number), ...fields);
  }

  function field(name, usual) {
    const given = name in state.settings ? state.settings[name] : usual;
    const kind = typeof usual === "boolean" ? "checkbox" : typeof usual === "number" ? "number" : "text";
    const box = make("input", {type: kind, step: kind === "number" ? "any" : null, value: kind === "checkbox" ? null : given, checked: kind === "checkbox" && given});
    box.addEventListener("input", () => {
      const value = kind === "checkbox" ? box.checked : kind === "number" ? Number(box.value) : box.value;
      if (box.value === "" || value === usual) delete state.settings[name];
      else state.settings[name] = value;
      schedule();
    });
    return make("label", {}, `${name} `, box);
  }

  // Copying, links

  function say(message) {
    status.textContent = message;
  }

  async function copy(text, message) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without a secure connection, there is no clipboard API, but a selection can be copied.
      const box = make("textarea", {"aria-hidden": "true"});
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    say(message);
  }

  // The part of an address after "#" is not sent to the server.
  function address() {
    const values = {model: modelBox.value, text: textBox.value};
    if (state.prefixes.some(Boolean)) values.prefixes = JSON.stringify(state.prefixes);
    if (Object.keys(state.settings).length) values.settings = JSON.stringify(state.settings);
    return `${location.href.split("#")[0]}#${new URLSearchParams(values)}`;
  }

  function readLink() {
    const values = new URLSearchParams(location.hash.slice(1));
    if (!values.has("text")) return false;
    if (models.some((each) => each.name === values.get("model"))) modelBox.value = values.get("model");
    textBox.value = values.get("text");
    const parsed = (name, usual) => {
      try {
        return JSON.parse(values.get(name)) || usual;
      } catch {
        return usual;
      }
    };
    const prefixes = parsed("prefixes", []);
    state.prefixes = Array.isArray(prefixes) ? prefixes.map(String) : [];
    const settings = parsed("settings", {});
    state.settings = Object.fromEntries(Object.entries(settings).filter(([name]) => Object.hasOwn(model().settings, name)));
    return true;
  }

  // Waits until the models are loaded. The page itself is not loaded again, so that what is typed stays.
  async function load() {
    while (!ready) {
      await new Promise((resolve) => setTimeout(resolve, POLL));
      const html = await fetch(location.pathname).then((response) => response.text()).catch(() => "");
      const page = new DOMParser().parseFromString(html, "text/html");
      const data = page.getElementById("page-data");
      if (!data) continue; // the server does not answer
      ({models, measures, ready} = JSON.parse(data.textContent));
      modelBox.replaceChildren(...models.map((each) => make("option", {value: each.name}, each.title)));
      find("about").replaceWith(page.getElementById("about"));
    }
    find("loading")?.remove();
    if (models.length) start();
  }

  function start() {
    find("form").addEventListener("submit", (event) => {
      event.preventDefault();
      translate();
    });
    textBox.addEventListener("input", () => {
      state.prefixes = []; // they belong to the previous text
      schedule();
    });
    textBox.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
    });
    modelBox.addEventListener("change", () => {
      Object.assign(state, {settings: {}, prefixes: [], results: [], between: [""], line: 0});
      showSettings();
      show();
      translate();
    });
    find("key")?.addEventListener("input", schedule);
    find("copy").addEventListener("click", () => copy(joined(), "copied"));
    find("share").addEventListener("click", () => {
      history.replaceState(null, "", address());
      copy(location.href, "copied a link that contains the text");
    });
    find("release").addEventListener("click", () => {
      state.prefixes = [];
      say("");
      textBox.focus();
      translate();
    });
    find("attention").addEventListener("toggle", showAttention);
    window.addEventListener("hashchange", () => {
      if (readLink()) {
        showSettings();
        translate();
      }
    });
    const typed = textBox.value; // while the models were loaded
    if (readLink() && typed) {
      textBox.value = typed;
      state.prefixes = [];
    }
    showSettings();
    find("more").hidden = false;
    if (textBox.value.trim()) translate();
    else showAttention();
  }

  document.addEventListener("DOMContentLoaded", load);
})();
