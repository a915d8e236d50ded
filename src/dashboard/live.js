/** Live: runs and what happens in them, as it happens, from the stream of server-sent events. Browser. */
import { make, makeBadge, makeHead, makePanel, makeTable } from './elements.js';
import { readEvents, withQuery } from './session.js';

/** What stays on the page. */
const EVENT_ROWS = 200;
const RUN_ROWS = 30;
const AGAIN_MS = 3_000;

const NAMES = {
  run_start: 'run started',
  step: 'step',
  run_finish: 'run finished',
  intervention: 'intervention',
  pattern_created: 'pattern created',
  retrieval_capped: 'cap reached',
};

export function fillLive(page, { org, server, signal, fail }) {
  page.append(makeHead('Live', 'Runs of this organization as they happen. What is remembered comes first.'));
  if (server.has_live_stream === false) {
    page.append(
      make(
        'p',
        { class: 'empty' },
        'The live stream is off on this server. Whoever runs it can set AUTH_DB_CONN_URL=embedded: and restart.',
      ),
    );
    return;
  }
  const state = make('span', { class: 'badge' }, 'connecting');
  page.querySelector('.head').append(make('div', { class: 'actions' }, state));
  const runs = make('div', {});
  const events = make('div', {});
  page.append(makePanel('Runs', runs), makePanel('Events', events));
  const picture = new LivePicture(runs, events);
  picture.draw();
  // It never ends of itself: the page is shown meanwhile.
  follow(org, signal, state, picture).catch(fail);
}

async function follow(org, signal, state, picture) {
  let lastId = '0';
  const say = (text, kind = '') => {
    state.textContent = text;
    state.className = `badge ${kind}`;
  };
  while (!signal.aborted) {
    try {
      const path = withQuery('/v1/monitor/stream', { org_id: org.id });
      const stream = readEvents(path, { signal, last_id: lastId });
      say('connected', 'good');
      for await (const { id, event, data } of stream) {
        if (id) lastId = id;
        if (Object.hasOwn(NAMES, event)) picture.add(event, data);
      }
    } catch (thrown) {
      if (signal.aborted || thrown.status === 401 || thrown.status === 404) throw thrown;
      // A restart, a network that went away: it resumes where it left off.
    }
    say('connecting again', 'bad');
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** What the events so far amount to; drawn once a frame however many come. */
class LivePicture {
  #runsAt;
  #eventsAt;
  #runs = new Map();
  #events = [];
  #isDue = false;

  constructor(runsAt, eventsAt) {
    this.#runsAt = runsAt;
    this.#eventsAt = eventsAt;
  }

  add(event, data) {
    this.#events.unshift({ event, data });
    this.#events.length = Math.min(this.#events.length, EVENT_ROWS);
    if (data.run_id) this.#note(event, data);
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.draw();
    });
  }

  #note(event, data) {
    const run = this.#runs.get(data.run_id) ?? { run_id: data.run_id, steps: 0, most: 0, fired: new Set() };
    // The one that something happened to last stands first.
    this.#runs.delete(data.run_id);
    this.#runs.set(data.run_id, run);
    run.at = data.at;
    if (event === 'run_start') Object.assign(run, { agent: data.agent_name, model: data.model });
    if (event === 'step') {
      run.steps += 1;
      run.most = Math.max(run.most, data.total_score);
      for (const monitor of data.fired) run.fired.add(monitor);
    }
    if (event === 'run_finish') {
      run.outcome = data.outcome;
      run.steps = data.steps;
      run.most = data.max_total_score;
    }
    if (this.#runs.size > RUN_ROWS) this.#runs.delete(this.#runs.keys().next().value);
  }

  draw() {
    this.#runsAt.replaceChildren(drawRuns([...this.#runs.values()].reverse()));
    this.#eventsAt.replaceChildren(drawEvents(this.#events));
  }
}

const clock = (time) =>
  make(
    'time',
    { datetime: time, title: new Date(time).toLocaleString() },
    new Date(time).toLocaleTimeString(),
  );

function drawRuns(runs) {
  const state = ({ outcome }) => {
    if (outcome === undefined) return makeBadge('running');
    return makeBadge(outcome, outcome === 'success' ? 'good' : outcome.startsWith('failure') ? 'bad' : '');
  };
  return makeTable(
    [
      ['Run', (run) => run.run_id, 'wide'],
      ['Agent', (run) => [run.agent, run.model].filter(Boolean).join(' · ') || '–', 'wide'],
      ['Steps', (run) => String(run.steps), 'number'],
      ['Highest score', (run) => run.most.toFixed(2), 'number'],
      ['Fired', (run) => [...run.fired].map((name) => makeBadge(name, 'bad'))],
      ['State', state],
      ['Last', (run) => clock(run.at)],
    ],
    runs,
    'No runs yet. They show here as soon as they start.',
  );
}

function drawEvents(events) {
  return makeTable(
    [
      ['Time', ({ data }) => clock(data.at)],
      ['Event', ({ event }) => NAMES[event]],
      ['Run', ({ data }) => data.run_id ?? '–', 'wide'],
      ['What', describeEvent, 'wide'],
    ],
    events,
    'Waiting for events.',
  );
}

function describeEvent({ event, data }) {
  if (event === 'step') {
    const words = `${data.step_index}: ${data.action || 'no action'}${data.is_error ? ', failed' : ''}`;
    return [words, ...data.fired.flatMap((name) => [' ', makeBadge(name, 'bad')])];
  }
  if (event === 'intervention') return makeBadge(`${data.failure_type}, ${data.level}`, 'bad');
  if (event === 'run_finish') return `${data.outcome}, ${data.steps} steps`;
  if (event === 'retrieval_capped') return `no pattern beyond ${data.cap} interventions this month`;
  if (event === 'pattern_created') return `${data.tier}${data.failure_type ? `, ${data.failure_type}` : ''}`;
  return [data.agent_name, data.model, data.task_profile].filter(Boolean).join(' · ');
}
