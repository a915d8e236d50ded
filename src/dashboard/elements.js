/** Builds elements. Text is always text: nothing of what the API answers is ever read as HTML. Browser. */

/** Marks that turn the order of what stands behind them, also of what is ours: whoever names a thing could dress it up. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

/** `make('td', { class: 'number' }, 'text', child, …)`; a function in `on…` listens. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined)
      element.append(typeof child === 'string' ? child.replaceAll(TURNING, '\ufffd') : child);
  }
  return element;
}

/** The head of a section: what it is, what it is for, and what can be done there. */
export function makeHead(text, purpose, ...actions) {
  return make(
    'div',
    { class: 'head' },
    make('div', {}, make('h1', {}, text), purpose ? make('p', {}, purpose) : null),
    actions.length > 0 ? make('div', { class: 'actions' }, actions) : null,
  );
}

/** A box with a heading of its own. */
export function makePanel(heading, ...children) {
  return make('section', { class: 'panel' }, heading ? make('h2', {}, heading) : null, children);
}

/**
 * A table; a column is [heading, what of a row, class]. On a narrow page each row stands as a card, with the headings
 * before the values.
 */
export function makeTable(columns, rows, empty) {
  if (rows.length === 0) return make('p', { class: 'empty' }, empty);
  const heads = columns.map(([heading, , kind]) => make('th', { scope: 'col', class: kind }, heading));
  const lines = rows.map((row) =>
    make(
      'tr',
      {},
      columns.map(([heading, show, kind]) =>
        make('td', { class: kind, 'data-heading': heading }, make('div', {}, show(row))),
      ),
    ),
  );
  return make('table', {}, make('thead', {}, make('tr', {}, heads)), make('tbody', {}, lines));
}

function makeField([name, label, attributes = {}]) {
  const { options, hint, ...rest } = attributes;
  const input = options
    ? make(
        'select',
        { name, ...rest },
        options.map(([value, text]) => make('option', { value }, text)),
      )
    : make(rest.type === 'textarea' ? 'textarea' : 'input', { name, autocomplete: 'off', ...rest });
  return make('label', {}, make('span', {}, label), input, hint ? make('small', {}, hint) : null);
}

/** A form of fields [name, label, attributes]; `submit` gets their values. Sent once until that has ended. */
export function makeForm(fields, button, submit) {
  const send = make('button', { class: 'main' }, button);
  const onsubmit = async (event) => {
    event.preventDefault();
    const wasHeld = document.activeElement === send;
    send.disabled = true;
    try {
      await submit(Object.fromEntries(new FormData(event.target)), event.target);
    } finally {
      send.disabled = false;
      // A disabled button has lost the focus: where it was refused, one tries again.
      if (wasHeld && document.activeElement === document.body) send.focus();
    }
  };
  return make('form', { onsubmit }, fields.map(makeField), send);
}

export function makeButton(text, onclick, kind = 'quiet') {
  return make('button', { type: 'button', class: kind, onclick }, text);
}

/** A button in a row of a list: its name says of which row, for whoever hears it without seeing where it stands. */
export function makeRowButton(text, row, onclick) {
  const button = makeButton(text, onclick);
  button.setAttribute('aria-label', `${text} ${row}`);
  return button;
}

/**
 * Remembers what has the focus in `root`, which is about to be filled anew.
 * @returns gives the focus to what stands there then, else to `root`: keys go on from where they were, not from the top
 */
export function keepFocus(root) {
  const held = document.activeElement;
  if (!root.contains(held)) return () => {};
  const findAlike = () =>
    [...root.querySelectorAll(held.localName)].filter(
      (one) => one.name === held.name && one.textContent === held.textContent,
    );
  const place = findAlike().indexOf(held);
  return () => {
    // Whoever has gone elsewhere meanwhile stays there.
    if (document.activeElement !== document.body) return;
    const alike = findAlike();
    (alike[Math.min(place, alike.length - 1)] ?? root).focus({ preventScroll: true });
  };
}

/**
 * Asks something in a dialog.
 * @returns the values of its fields, or null when it was left
 */
export function ask({ heading, text, fields = [], button = 'OK', is_dangerous = false }) {
  return new Promise((resolve) => {
    let answer = null;
    const dialog = make('dialog', { 'aria-label': heading });
    const onsubmit = (event) => {
      event.preventDefault();
      answer = Object.fromEntries(new FormData(event.target));
      dialog.close();
    };
    dialog.append(
      make('h2', {}, heading),
      text ? make('p', {}, text) : '',
      make(
        'form',
        { onsubmit },
        fields.map(makeField),
        make(
          'div',
          { class: 'actions' },
          makeButton('Cancel', () => dialog.close(), 'plain'),
          make('button', { class: is_dangerous ? 'main danger' : 'main' }, button),
        ),
      ),
    );
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Copies where the page may; on plain http the browser offers no clipboard, but still its old command. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make('textarea', { class: 'offstage' });
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied) throw new Error('not copied');
}

export function makeCopyButton(text, label = 'Copy') {
  const button = makeButton(
    label,
    async () => {
      button.textContent = await copyText(text).then(
        () => 'Copied',
        () => 'Select it and copy',
      );
      setTimeout(() => {
        button.textContent = label;
      }, 2_000);
    },
    'plain small',
  );
  return button;
}

/** Text to take along, whole lines of it, with a button that copies it. */
export function makeSnippet(text, label) {
  return make(
    'div',
    { class: 'snippet' },
    make('pre', { tabindex: 0, 'aria-label': label ?? 'To copy' }, text),
    makeCopyButton(text),
  );
}

/** An identifier: its end, which tells it from others; the whole when pointed at, and copied by a click. */
export function makeId(id) {
  const isOurs = /^[a-z]+_[0-9A-Z]{26}$/.test(id);
  const show = isOurs ? `${id.split('_')[0]}_…${id.slice(-6)}` : id.length > 24 ? `${id.slice(0, 23)}…` : id;
  const button = makeButton(
    show,
    async () => {
      button.textContent = await copyText(id).then(
        () => 'copied',
        () => id,
      );
      setTimeout(() => {
        button.textContent = show;
      }, 1_500);
    },
    'id',
  );
  button.title = `${id} (copy)`;
  return button;
}

/** An address, which breaks at its @ before it does anywhere else. */
export function makeEmail(email, attributes = {}) {
  const [local, domain = ''] = email.split(/(?=@[^@]*$)/);
  return make('span', { class: 'email', ...attributes }, local, make('wbr'), domain);
}

/** A word that stands for a state. */
export const makeBadge = (text, kind = '') => make('span', { class: `badge ${kind}` }, text);

const STEPS_S = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

/** How long ago, or until then; the exact time when pointed at. */
export function makeTime(time, never = 'never') {
  if (time === null || time === undefined) return make('span', { class: 'faint' }, never);
  const at = new Date(time);
  const seconds = (at.getTime() - Date.now()) / 1_000;
  const [unit, length] = STEPS_S.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
  const text = unit === 'second' ? 'just now' : relative.format(Math.trunc(seconds / length), unit);
  return make(
    'time',
    { datetime: time, title: at.toLocaleString(undefined, { timeZoneName: 'short' }) },
    text,
  );
}

/** How much of something is used. */
export function makeMeter(used, most, label) {
  const share = most === 0 ? 1 : Math.min(1, used / most);
  const meter = make('progress', { max: 1, 'aria-label': label, class: share >= 0.9 ? 'near' : '' });
  meter.value = share;
  return meter;
}

/** Bars, one a day, with what each stands for as its title; whoever cannot see them hears of the whole. */
export function makeChart(heading, points) {
  const SVG = 'http://www.w3.org/2000/svg';
  const draw = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    return element;
  };
  const number = new Intl.NumberFormat();
  const total = points.reduce((sum, { value }) => sum + value, 0);
  const most = Math.max(1, ...points.map(({ value }) => value));
  const chart = draw('svg', {
    class: 'chart',
    viewBox: `0 0 ${points.length * 10} 100`,
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': `${heading}: ${total} in ${points.length} days, at most ${most} a day`,
  });
  points.forEach(({ date, value }, index) => {
    const height = value === 0 ? 1 : Math.max(3, (value / most) * 100);
    const day = draw('g', { class: value === 0 ? 'none' : 'some' });
    day.append(
      draw('title', {}),
      draw('rect', { class: 'reach', x: index * 10, y: 0, width: 10, height: 100 }),
      draw('rect', { class: 'bar', x: index * 10 + 1, y: 100 - height, width: 8, height }),
    );
    day.firstChild.textContent = `${showDay(date)}: ${number.format(value)}`;
    chart.append(day);
  });
  const words =
    total === 0
      ? 'none in 30 days'
      : `${number.format(total)} in 30 days, up to ${number.format(most)} a day`;
  return make(
    'figure',
    { class: 'panel' },
    make('figcaption', {}, make('b', {}, heading), make('span', {}, words)),
    chart,
    make(
      'div',
      { class: 'axis' },
      make('span', {}, showDay(points[0]?.date)),
      make('span', {}, showDay(points.at(-1)?.date)),
    ),
  );
}

/** A calendar day of the API's, which is UTC's. */
function showDay(date) {
  if (date === undefined) return '';
  return new Date(`${date}T00:00:00Z`).toLocaleDateString(undefined, {
    day: 'numeric',
    month: 'short',
    timeZone: 'UTC',
  });
}
