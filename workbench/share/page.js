// Moves a page's controls over the charts of its settings (`share.payload`). It is bundled behind
// widgets/live_chart.js, whose `drawings` it calls, and reads what `page.html` has unpacked.
const { controls, templates, pool, points } = globalThis.shared;
const NARROW_PX = 640;
const LABELS_PX = 130; // left of plots, whose titles begin at them
const LETTER_PX = 5.9; // mean width in bold of 8 pt
const PLOT_PX = 160; // the narrowest plot
// What Vega describes as it is at first, though it changes; without that, its texts are read.
const GUIDES = ["axis", "legend", "title", "subtitle"]
    .map(guide => `[aria-roledescription="${guide}"]`).join();
const AT_HAND = 48; // drawings that are kept: one for each template that a page is likely to need

function column(written, lanes) {
    if (Array.isArray(written)) return written;
    const reached = new Map();
    return written.steps.map((step, row) => {
        const sum = (reached.get(lanes[row]) ?? 0) + step;
        reached.set(lanes[row], sum);
        return sum / written.per;
    });
}

// The chart of a setting, given as the position of every control.
function chart(positions) {
    const [which, ...places] = points[positions.reduce(
        (point, position, at) => point * controls[at].shown.length + position, 0)];
    const { template, data, signals } = templates[which];
    const values = places.map(place => pool[place]);
    const rows = Object.fromEntries(Object.entries(data).map(([name, columns]) => {
        const written = values.splice(0, columns.length);
        const lanes = written[0];
        const read = written.map(one => column(one, lanes));
        return [name, (lanes ?? []).map((_, row) => Object.fromEntries(
            columns.map((key, at) => [key, read[at][row]])))];
    }));
    const named = Object.fromEntries(signals.map((name, at) => [name, values[at]]));
    return { template, values: { data: rows, signals: named } };
}

// On a narrow screen views stand below each other, and legends have two columns.
const narrowed = new Map();
function narrow(template) {
    if (!narrowed.has(template)) {
        const below = JSON.parse(JSON.stringify(template)
            .replaceAll('"hconcat":', '"vconcat":').replaceAll('"columns":2', '"columns":1'));
        below.config.legend.columns = 2;
        narrowed.set(template, below);
    }
    return narrowed.get(template);
}

// Titles in lines of at most that number of letters.
function wrapped(signals, letters) {
    const line = new RegExp(`.{1,${letters}}(?= |$)|[^ ]+`, "g");
    return Object.fromEntries(Object.entries(signals).map(([name, value]) => [
        name,
        typeof value === "number" ? value
            : [value].flat().join(" ").match(line).map(text => text.trim()),
    ]));
}

function fitting(positions) {
    const whole = chart(positions);
    if (place.clientWidth >= NARROW_PX) return whole;
    const { data, signals } = whole.values;
    const letters = Math.floor((place.clientWidth - LABELS_PX) / LETTER_PX);
    return { template: narrow(whole.template), values: { data, signals: wrapped(signals, letters) } };
}

// Makes plots narrower by what stands out.
async function fit(view) {
    const drawn_px = Number(place.querySelector("svg").getAttribute("width"));
    const excess_px = drawn_px - place.clientWidth;
    if (excess_px <= 0) return;
    for (const [name, value] of Object.entries(view.getState().signals)) {
        if (/(^|_)width$/.test(name) && value >= PLOT_PX) {
            view.signal(name, Math.max(PLOT_PX, value - Math.ceil(excess_px)));
        }
    }
    await view.resize().runAsync();
}

const place = document.getElementById("chart");
const inputs = controls.map(({ name }) => document.getElementById(name));
const { show, prepare } = drawings(place, AT_HAND);

function positions() {
    return inputs.map(input => input.selectedIndex ?? Number(input.value));
}

async function draw() {
    const now = positions();
    delete place.dataset.shown;
    inputs.forEach((input, at) => {
        if (input.type !== "range") return;
        const shown = controls[at].shown[now[at]];
        input.setAttribute("aria-valuetext", shown);
        document.querySelector(`output[for=${input.id}]`).textContent = shown;
    });
    const { template, values } = fitting(now);
    document.getElementById("said").textContent = Object.values(values.signals)
        .filter(Array.isArray).flat().join(" ");
    await fit(await show(template, values));
    for (const guide of place.querySelectorAll(GUIDES)) guide.removeAttribute("aria-label");
    if (now.every((position, at) => position === positions()[at])) place.dataset.shown = now;
}

// Draws what one move leads to while nobody moves anything, where it looks different.
let moved = 0;
async function look_ahead() {
    const since = moved;
    const now = positions();
    for (const [at, { shown }] of controls.entries()) {
        const near = inputs[at].type === "range" ? [now[at] + 1, now[at] - 1] : shown.keys();
        for (const position of near) {
            if (!(position in shown)) continue;
            const { template, values } = fitting(now.with(at, position));
            await new Promise(free => setTimeout(free));
            if (moved !== since) return;
            await prepare(template, values);
        }
    }
}

let waiting;
async function answer() {
    moved += 1;
    await draw();
    clearTimeout(waiting);
    waiting = setTimeout(look_ahead, 300);
}
for (const input of inputs) input.addEventListener("input", answer);
let width_px = 0;
new ResizeObserver(() => {
    if (place.clientWidth !== width_px) answer();
    width_px = place.clientWidth;
}).observe(place);
globalThis.shared = { ...globalThis.shared, chart };
