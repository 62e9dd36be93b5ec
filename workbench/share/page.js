// Moves a page's controls over the charts of its settings (`share.payload`). It is bundled behind
// widgets/live_chart.js, whose `drawings` it calls, and reads what `page.html` has unpacked.
const { controls, templates, pool, points } = globalThis.shared;
const NARROW_PX = 640;
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

const place = document.getElementById("chart");
const inputs = controls.map(({ name }) => document.getElementById(name));
const { show, prepare } = drawings(place, AT_HAND);

function positions() {
    return inputs.map(input => input.selectedIndex ?? Number(input.value));
}

function draw() {
    const now = positions();
    inputs.forEach((input, at) => {
        if (input.type !== "range") return;
        const shown = controls[at].shown[now[at]];
        input.setAttribute("aria-valuetext", shown);
        document.querySelector(`output[for=${input.id}]`).textContent = shown;
    });
    const { template, values } = chart(now);
    document.getElementById("said").textContent = Object.values(values.signals)
        .filter(Array.isArray).flat().join(" ");
    return show(template, values);
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
            const { template, values } = chart(now.with(at, position));
            await new Promise(free => setTimeout(free));
            if (moved !== since) return;
            await prepare(template, values);
        }
    }
}

let waiting;
for (const input of inputs) {
    input.addEventListener("input", async () => {
        moved += 1;
        clearTimeout(waiting);
        await draw();
        clearTimeout(waiting);
        waiting = setTimeout(look_ahead, 300);
    });
}
await draw();
waiting = setTimeout(look_ahead, 300);
globalThis.shared = { ...globalThis.shared, chart };
