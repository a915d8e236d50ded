/** Builds elements. Text is always text: nothing of what the API answers is ever read as HTML. Browser. */

/** `make('td', { class: 'number' }, 'text', child, …)`; a function in `on…` listens. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table; a column is [heading, what of a row, class]. */
export function makeTable(columns, rows, empty) {
  if (rows.length === 0) return make('p', { class: 'empty' }, empty);
  const heads = columns.map(([heading, , kind]) => make('th', { scope: 'col', class: kind }, heading));
  const lines = rows.map((row) =>
    make(
      'tr',
      {},
      columns.map(([, show, kind]) => make('td', { class: kind }, show(row))),
    ),
  );
  return make('table', {}, make('thead', {}, make('tr', {}, heads)), make('tbody', {}, lines));
}

/** A form of fields [name, label, attributes]; `submit` gets their values. */
export function makeForm(fields, button, submit) {
  const inputs = fields.map(([name, label, attributes = {}]) => {
    const { options, ...rest } = attributes;
    const input = options
      ? make(
          'select',
          { name, ...rest },
          options.map(([value, text]) => make('option', { value }, text)),
        )
      : make(rest.type === 'textarea' ? 'textarea' : 'input', { name, ...rest });
    return make('label', {}, label, input);
  });
  const onsubmit = (event) => {
    event.preventDefault();
    submit(Object.fromEntries(new FormData(event.target)), event.target);
  };
  return make('form', { onsubmit }, inputs, make('button', { class: 'main' }, button));
}

export function makeButton(text, onclick, kind = 'quiet') {
  return make('button', { type: 'button', class: kind, onclick }, text);
}

/** Bars, one a value, with what each stands for as its title; whoever cannot see them hears of the whole. */
export function makeChart(points) {
  const SVG = 'http://www.w3.org/2000/svg';
  const draw = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    return element;
  };
  const most = Math.max(1, ...points.map(({ value }) => value));
  const chart = draw('svg', {
    class: 'chart',
    viewBox: `0 0 ${points.length * 10} 100`,
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': `${points.reduce((sum, { value }) => sum + value, 0)} in ${points.length} days, at most ${most} a day`,
  });
  chart.append(draw('line', { x1: 0, x2: points.length * 10, y1: 99.5, y2: 99.5 }));
  points.forEach(({ label, value }, index) => {
    const height = (value / most) * 96;
    const bar = draw('rect', { x: index * 10 + 1, y: 99 - height, width: 8, height });
    bar.append(draw('title', {}));
    bar.firstChild.textContent = `${label}: ${value}`;
    chart.append(bar);
  });
  return chart;
}
