/**
 * A dispatcher of lorries: it answers drivers and depots, replaces vehicles and drivers, finds other roads, books the
 * workshop, or hands over to a desk with people. Messages API, streamed. Pure; bench process.
 */

import { isDeepStrictEqual } from 'node:util';
import { createPrng } from '../../../../src/std/prng.ts';
import type { Facts } from '../facts.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  only,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { anyOf, scaled } from '../independent.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { addDays, CITIES, isoDate, longDate, PERSON_NAMES } from '../vocabulary.ts';
import { pick, word } from '../wording.ts';
import {
  GREETINGS,
  LOG_FRAMES,
  makeSystem,
  makeTask,
  type Outcome,
  PLAN_FRAMES,
  RULE_WORDS,
  SAID,
  SUMMARIES,
} from './fleet-dispatcher-words.ts';
import {
  type Driver,
  type Intent,
  type Lorry,
  makeWorld,
  type Question,
  RECEIVERS,
  RESERVE_MIN,
  rankDrivers,
  rankLorries,
  rankWays,
  span,
  WAYS,
  type Way,
  type World,
} from './fleet-dispatcher-world.ts';

type Lookup =
  | 'find_driver'
  | 'get_vehicle'
  | 'get_route'
  | 'get_driving_hours'
  | 'find_ways'
  | 'list_vehicles'
  | 'list_drivers'
  | 'list_home_drivers';
type Values = Readonly<Record<string, string>>;

const TOOLS = [
  tool('find_driver', 'Finds a driver by name, with the present vehicle and route.', { name: 'string' }),
  tool('get_vehicle', 'Reads a vehicle by its plate.', { plate: 'string' }),
  tool('get_route', 'Reads the sheet of a route.', { route_id: 'string' }),
  tool('get_driving_hours', 'Reads the tachograph card of a driver.', { driver_id: 'string' }),
  tool('find_ways', 'Lists ways for the rest of a route that avoid a road.', {
    route_id: 'string',
    closed_road: 'string',
  }),
  tool('list_vehicles', 'Lists the vehicles at a depot.', { depot: 'string' }),
  tool('list_drivers', 'Lists the drivers of a depot.', { depot: 'string' }),
  tool('set_way', "Sends a way to the cab's navigation.", { route_id: 'string', way: 'string' }),
  tool('move_slot', 'Asks the receiver for another time of unloading (HH:MM).', {
    route_id: 'string',
    time: 'string',
  }),
  tool('assign_vehicle', 'Gives a vehicle to a route.', { route_id: 'string', plate: 'string' }),
  tool('assign_driver', 'Gives a driver to a route.', { route_id: 'string', driver_id: 'string' }),
  tool('book_workshop', 'Books a bay of the workshop for a day (YYYY-MM-DD).', {
    plate: 'string',
    date: 'string',
    work: 'string',
  }),
  tool(
    'record_incident',
    'Writes an incident into the file of a vehicle. Kinds: load, vehicle, third party.',
    {
      plate: 'string',
      kind: 'string',
      note: 'string',
    },
  ),
  tool('hand_over', 'Gives the case to people. Desks: breakdown, traffic, night, claims.', {
    desk: 'string',
    summary: 'string',
  }),
  tool('send_message', 'Writes to a driver (id) or a depot (its town).', { to: 'string', text: 'string' }),
];

function isMade(turns: readonly Turn[], { name, input }: WantedCall): boolean {
  return callsOf(turns, name).some((made) => isDeepStrictEqual(made.input, input));
}

/** Fills a set of spellings with values: a string is the name of one, and a pattern may contain `<name>`. */
function spell(spelling: string | RegExp, values: Values): string | RegExp {
  if (typeof spelling === 'string') return values[spelling]!;
  return new RegExp(
    spelling.source.replaceAll(/<(\w+)>/g, (_all, name: string) => values[name]!.toLowerCase()),
  );
}

const NEEDS: Readonly<Record<Exclude<Intent, 'ask'>, readonly Lookup[]>> = {
  minor: ['get_vehicle'],
  major: ['get_route', 'get_vehicle', 'list_vehicles'],
  closed: ['find_ways', 'get_driving_hours', 'get_vehicle'],
  late: ['get_driving_hours', 'get_route'],
  damage: ['get_vehicle'],
  extra: ['get_route', 'list_vehicles', 'list_drivers'],
};
/** What is needed where a rule leaves less to do. */
const RULE_NEEDS: Readonly<Record<'bays' | 'damage', readonly Lookup[]>> = {
  bays: ['get_vehicle'],
  damage: [],
};
const QUESTION_NEEDS: Readonly<Record<Question, Lookup>> = {
  slot: 'get_route',
  dock: 'get_route',
  hours: 'get_driving_hours',
  service: 'get_vehicle',
};

/** An outcome, and what was chosen for it. */
interface Decided {
  kind: Outcome;
  lorry?: Lorry;
  driver?: Driver;
  way?: Way;
  desk?: string;
}

/** Lists the values of a field in calls that a tool refused. */
function failedOf(turns: readonly Turn[], name: string, field: string): unknown[] {
  return allCallsOf(turns, name)
    .filter(({ is_error }) => is_error)
    .map(({ input }) => input[field]);
}

function isRefused(turns: readonly Turn[], name: string): boolean {
  return allCallsOf(turns, name).some(({ is_error }) => is_error);
}

function wayValues({ way, km, minutes, toll_eur }: Way): Values {
  return { way, km: String(km), minutes: String(minutes), toll: String(toll_eur), took: span(minutes) };
}

class DispatcherRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #world: World;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    const world = makeWorld(prng, kind);
    this.#world = world;
    this.#together = pick(prng, [0.85, 0.7, 0.15]);
    const system = makeSystem(world);
    const task = makeTask(prng, world);
    const { rule } = world;
    const sentence =
      rule === null ? '' : word(prng, pick(prng, RULE_WORDS[rule]), { banned: world.banned_way });
    const isInTask = rule === 'propose' || (rule !== null && prng.chance(0.3));
    this.system = isInTask || rule === null ? system : `${system}\n- ${sentence}`;
    this.task = isInTask ? `${task}\n\n(Note of the office: ${sentence})` : task;
  }

  perform({ name, input }: ToolCall): Result {
    const { driver, lorry, route, home, road, booking } = this.#world;
    switch (name) {
      case 'find_driver':
        return input.name === driver.name
          ? good({
              driver_id: driver.id,
              name: driver.name,
              home_depot: home,
              vehicle: lorry.plate,
              route: route.id,
            })
          : bad(`no driver named ${String(input.name)}`);
      case 'get_vehicle':
        return input.plate === lorry.plate ? good(this.#vehicle()) : bad('unknown plate');
      case 'get_route':
        return input.route_id === route.id ? good(this.#sheet()) : bad('unknown route');
      case 'get_driving_hours':
        return input.driver_id === driver.id ? this.#card() : bad('unknown driver');
      case 'find_ways':
        if (input.route_id !== route.id) return bad('unknown route');
        return good({
          route: route.id,
          avoids: input.closed_road,
          ways: input.closed_road === road ? this.#world.ways : [],
        });
      case 'list_vehicles':
      case 'list_drivers':
        return name === 'list_vehicles' ? this.#yard(input.depot) : this.#crew(input.depot);
      case 'send_message':
        return good({ delivered: true, to: input.to });
      case 'hand_over':
        return good(`ticket ${booking.slice(1)} opened at desk ${String(input.desk)}`);
      default:
        return this.#change(name, input);
    }
  }

  #change(name: string, input: Readonly<Record<string, unknown>>): Result {
    const { lorry, route, eta, free_slots, is_dock_full, gone, is_bay_full, booking } = this.#world;
    switch (name) {
      case 'set_way':
        return input.route_id === route.id ? good('sent to the cab') : bad('unknown route');
      case 'move_slot':
        return input.time === eta && is_dock_full
          ? bad(`${route.receiver} has no dock at ${eta}; free: ${free_slots.join(', ')}`)
          : good({ route: route.id, slot: input.time, confirmed_by: route.receiver });
      case 'assign_vehicle':
        return gone.has(String(input.plate))
          ? bad(`${String(input.plate)} was given to another route a minute ago`)
          : good({ route: route.id, vehicle: input.plate });
      case 'assign_driver':
        return gone.has(String(input.driver_id))
          ? bad(`${String(input.driver_id)} has just left on another route`)
          : good({ route: route.id, driver: input.driver_id });
      case 'book_workshop':
        if (input.plate !== lorry.plate) return bad('unknown plate');
        return is_bay_full && input.date === isoDate(this.#workday)
          ? bad(
              `no bay is free on ${String(input.date)}; next free day: ${isoDate(addDays(this.#workday, 2))}`,
            )
          : good(`${booking} ${String(input.date)} ${lorry.plate} confirmed`);
      case 'record_incident':
        return input.plate === lorry.plate
          ? good({ incident: `I${booking.slice(1)}`, kind: input.kind })
          : bad('unknown plate');
      default:
        return bad(`no tool ${name}`);
    }
  }

  #vehicle(): object {
    const { lorry, driver, route, home, back_on, service_on } = this.#world;
    return {
      ...{ plate: lorry.plate, type: lorry.type, height_m: lorry.height_m, payload_kg: lorry.payload_kg },
      now: { route: route.id, driver: { id: driver.id, name: driver.name } },
      depot: { home, back_on: isoDate(back_on) },
      next_service_on: isoDate(service_on),
    };
  }

  #sheet(): string {
    const { lorry, driver, route, today, intent } = this.#world;
    const isWaiting = intent === 'extra';
    const { id, from, to, near, receiver, dock, pallets, kg, slot, left_min } = route;
    return [
      `ROUTE ${id}   ${isoDate(today)}`,
      `  driver         ${isWaiting ? '-' : `${driver.id} ${driver.name}`}`,
      `  vehicle        ${isWaiting ? `- (needs: ${lorry.type})` : `${lorry.plate} (${lorry.type})`}`,
      `  from           ${isWaiting ? near : from}`,
      `  to             ${to}, ${receiver}, dock ${dock}`,
      `  load           ${pallets} pallets, ${kg} kg`,
      `  unloading      ${slot}`,
      `  driving left   ${span(left_min)}`,
      `  nearest depot  ${near}`,
    ].join('\n');
  }

  #card(): Result {
    const { driver, home, is_card_unread, clock } = this.#world;
    const { id, left_min } = driver;
    if (is_card_unread)
      return bad(`no reading of the card of ${id} since yesterday; see the list of drivers of ${home}`);
    // In a changed run, the tool counts in minutes and gives fields.
    return this.#kind === 'changed'
      ? good({
          driver_id: id,
          read_at: clock,
          driving: { used_min: 540 - Math.min(left_min, 540), left_min },
          break_due: left_min > 270,
        })
      : good(
          `${id}, card read at ${clock}\nleft today: ${span(left_min)}\nbreak due: ${left_min > 270 ? 'yes, one more' : 'no'}`,
        );
  }

  #yard(depot: unknown): Result {
    if (depot !== this.#world.route.near) return good('(no vehicles)');
    const rows = this.#world.lorries.map(
      ({ plate, type, payload_kg, height_m, state }) =>
        `| ${plate} | ${type} | ${payload_kg} kg | ${height_m} m | ${state} |`,
    );
    return good(['| plate | type | payload | height | state |', '|---|---|---|---|---|', ...rows].join('\n'));
  }

  #crew(depot: unknown): Result {
    const { route, home, drivers, driver } = this.#world;
    const list = depot === route.near ? drivers : depot === home ? [driver] : [];
    return good(
      [
        'id;name;state;left today',
        ...list.map(({ id, name, state, left_min }) => `${id};${name};${state};${span(left_min)}`),
      ].join('\n'),
    );
  }

  /** The day on which the workshop should have the vehicle. */
  get #workday(): number {
    return this.#world.intent === 'minor' ? this.#world.back_on : this.#world.today;
  }

  moves(turns: readonly Turn[]): Move[] {
    const looks = this.#look(turns);
    if (looks.length > 0) return looks;
    const outcome = this.#outcome(turns);
    const acts = this.#acts(outcome, turns).filter(({ name }) => callsOf(turns, name).length === 0);
    if (acts.length > 0) return anyOf(acts, this.#together);
    if (this.#world.rule === 'propose') return ending(this.#tell(outcome, turns, PLAN_FRAMES));
    if (callsOf(turns, 'send_message').length > 0) return ending(this.#tell(outcome, turns, LOG_FRAMES));
    const { intent, route, driver } = this.#world;
    const to = intent === 'extra' ? route.near : driver.id;
    return only({ name: 'send_message', input: { to }, free: { text: this.#message(outcome, turns) } });
  }

  /** Lists the lookups that the case still needs, and those that find their ids. */
  #look(turns: readonly Turn[]): Move[] {
    const { intent, driver, route, home } = this.#world;
    const known = [this.task, ...turns.flatMap(({ results }) => results.map(({ text }) => text))].join('\n');
    const calls = this.#needed(turns)
      .map((name) => this.#lookup(name))
      .filter((call) => !isMade(turns, call));
    const unknown = calls
      .flatMap(({ input }) => Object.values(input))
      .concat(intent === 'extra' ? [] : [driver.id])
      .filter((id) => !known.includes(String(id)));
    const ready = calls.filter(({ input }) => !Object.values(input).some((id) => unknown.includes(id)));
    // Towns of depots are in sheets that are read anyway.
    const finders = unknown.every((id) => id === route.near || id === home)
      ? []
      : this.#finders(known).filter(
          (call) => !isMade(turns, call) && !ready.some(({ name }) => call.name === name),
        );
    if (ready.length === 0)
      return finders.map((finder, at) => ({ weight: at === 0 ? 0.7 : 0.3, calls: [finder] }));
    if (finders.length === 0) return anyOf(ready, this.#together);
    return [
      ...scaled(anyOf(ready, this.#together), 0.8),
      ...finders.flatMap((finder) => [
        { weight: 0.1, calls: [finder] },
        { weight: 0.1, calls: [finder, ...ready] },
      ]),
    ];
  }

  /** Lists the lookups that tell which driver, vehicle and route belong together. */
  #finders(known: string): WantedCall[] {
    const { driver, lorry, route } = this.#world;
    const names: Lookup[] = [
      ...(known.includes(lorry.plate) ? (['get_vehicle'] as const) : []),
      ...(known.includes(driver.name) ? (['find_driver'] as const) : []),
      ...(known.includes(route.id) ? (['get_route'] as const) : []),
    ];
    return names.map((name) => this.#lookup(name));
  }

  #needed(turns: readonly Turn[]): Lookup[] {
    const { intent, question, rule, is_card_unread } = this.#world;
    const names: readonly Lookup[] =
      rule === 'bays' || rule === 'damage'
        ? RULE_NEEDS[rule]
        : intent === 'ask'
          ? [QUESTION_NEEDS[question]]
          : NEEDS[intent];
    const isUnread = is_card_unread && allCallsOf(turns, 'get_driving_hours').length > 0;
    const needed = names.map((name) =>
      isUnread && name === 'get_driving_hours' ? 'list_home_drivers' : name,
    );
    const isLate = intent === 'late' && !this.#hasHours && rule !== 'drivers';
    const isClear = needed.every((name) => isMade(turns, this.#lookup(name)));
    return isLate && isClear ? [...needed, 'list_drivers'] : needed;
  }

  #lookup(name: Lookup): WantedCall {
    const { driver, lorry, route, road, home } = this.#world;
    const inputs: Readonly<Record<Lookup, Record<string, unknown>>> = {
      find_driver: { name: driver.name },
      get_vehicle: { plate: lorry.plate },
      get_route: { route_id: route.id },
      get_driving_hours: { driver_id: driver.id },
      find_ways: { route_id: route.id, closed_road: road },
      list_vehicles: { depot: route.near },
      list_drivers: { depot: route.near },
      list_home_drivers: { depot: home },
    };
    return { name: name === 'list_home_drivers' ? 'list_drivers' : name, input: inputs[name] };
  }

  /** Whether the driver's hours last for the rest of the route. */
  get #hasHours(): boolean {
    const { driver, route, rule } = this.#world;
    return driver.left_min >= route.left_min + (rule === 'reserve' ? 0 : RESERVE_MIN);
  }

  #outcome(turns: readonly Turn[]): Decided {
    const world = this.#world;
    const { intent, rule, question, damage } = world;
    const isPlan = rule === 'propose';
    const [lorry] = rankLorries(world, failedOf(turns, 'assign_vehicle', 'plate'));
    const [driver] = rankDrivers(world, failedOf(turns, 'assign_driver', 'driver_id'));
    switch (intent) {
      case 'ask':
        return { kind: question };
      case 'minor':
      case 'major':
        if (rule === 'bays') return { kind: 'handed', desk: 'breakdown' };
        if (intent === 'minor') return { kind: isPlan ? 'would book' : 'booked' };
        return lorry === undefined ? { kind: 'handed', desk: 'breakdown' } : { kind: 'swapped', lorry };
      case 'closed': {
        const [way] = rankWays(world);
        if (way === undefined) return { kind: 'handed', desk: 'traffic' };
        return { kind: isPlan ? 'would reroute' : 'rerouted', way };
      }
      case 'late':
        if (this.#hasHours) return { kind: 'moved' };
        return rule === 'drivers' || driver === undefined
          ? { kind: 'handed', desk: 'night' }
          : { kind: 'relieved', driver };
      case 'damage':
        if (rule === 'damage') return { kind: 'unrecorded' };
        return damage.kind === 'third party' ? { kind: 'claimed', desk: 'claims' } : { kind: 'recorded' };
      case 'extra':
        return lorry === undefined || driver === undefined
          ? { kind: 'waits' }
          : { kind: isPlan ? 'would assign' : 'assigned', lorry, driver };
    }
  }

  /** Lists the changes that an outcome consists of. Those that are made are listed, too. */
  #acts(outcome: Decided, turns: readonly Turn[]): WantedCall[] {
    const { route, lorry, damage } = this.#world;
    const values = this.#values(outcome, turns);
    const route_id = route.id;
    const vehicle = { name: 'assign_vehicle', input: { route_id, plate: outcome.lorry?.plate } };
    const driver = { name: 'assign_driver', input: { route_id, driver_id: outcome.driver?.id } };
    const bay = {
      name: 'book_workshop',
      input: { plate: lorry.plate, date: values.date },
      free: { work: this.#work(values) },
    };
    const record = {
      name: 'record_incident',
      input: { plate: lorry.plate, kind: damage.kind },
      free: { note: this.#note(values) },
    };
    const desk = {
      name: 'hand_over',
      input: { desk: outcome.desk },
      free: { summary: this.#summary(outcome, values) },
    };
    switch (outcome.kind) {
      case 'booked':
        return [bay];
      case 'swapped':
        return [vehicle, bay];
      case 'rerouted':
        return [{ name: 'set_way', input: { route_id, way: outcome.way!.way } }];
      case 'moved':
        return [{ name: 'move_slot', input: { route_id, time: values.time } }];
      case 'relieved':
        return [driver];
      case 'recorded':
        return [record];
      case 'claimed':
        return [record, desk];
      case 'assigned':
        return [vehicle, driver];
      case 'handed':
        return [desk];
      default:
        return [];
    }
  }

  #work(values: Values): FreeText {
    const { trouble } = this.#world;
    return {
      wordings: [
        '{Check|Repair|Look at} the <part>{: <trouble>|}',
        '{Driver reports|<name> says}: <trouble>',
        '<part>{, reported on the road|, see message of <clock>|}: {please repair|diagnosis and repair}',
      ],
      values,
      facts: { needs: [[trouble.spelling]] },
    };
  }

  #note(values: Values): FreeText {
    const { damage } = this.#world;
    return {
      wordings: [
        '<name> reports <what>, {about|around|estimated} <cost> EUR.',
        '<what>{ on <route>|}{, reported at <clock>|}. {Estimate|Cost}: <cost> EUR.',
        '{Reported by <name>|Driver <name>}: <what> (<cost> EUR{, photos in the app|}).',
      ],
      values,
      facts: { needs: [[damage.spelling], [String(damage.cost)]] },
    };
  }

  #summary({ desk }: Decided, values: Values): FreeText {
    const { trouble, lorry, route } = this.#world;
    const { why } = values;
    return {
      wordings: why === undefined ? [] : SUMMARIES,
      values,
      facts: { needs: [[route.id, lorry.plate], ...(desk === 'breakdown' ? [[trouble.spelling]] : [])] },
    };
  }

  #why(desk: string | undefined): string | undefined {
    const { trouble, road, driver, route, damage } = this.#world;
    switch (desk) {
      case 'breakdown':
        return trouble.words;
      case 'traffic':
        return `${road} is closed and no way is possible`;
      case 'night':
        return `${span(driver.left_min)} of driving left, but the route needs ${span(route.left_min)}`;
      case 'claims':
        return `${damage.what}, about ${damage.cost} EUR`;
      default:
        return undefined;
    }
  }

  #values({ lorry, driver, way, desk }: Decided, turns: readonly Turn[]): Values {
    const world = this.#world;
    const { route, intent, service_on, trouble, damage } = world;
    const { left_min } = world.driver;
    const day = addDays(this.#workday, isRefused(turns, 'book_workshop') ? 2 : 0);
    const why = this.#why(desk);
    return {
      ...{ who: intent === 'extra' ? route.near : world.driver.name, name: world.driver.name },
      ...{ clock: world.clock, plate: world.lorry.plate, route: route.id, from: route.from, to: route.to },
      ...{ near: route.near, receiver: route.receiver, dock: String(route.dock), slot: route.slot },
      ...{ pallets: String(route.pallets), kg: String(route.kg), route_left: span(route.left_min) },
      ...{ left: span(left_min), left_min: String(left_min) },
      left_clock: `${Math.floor(left_min / 60)}:${String(left_min % 60).padStart(2, '0')}`,
      ...{ left_hours: String(Math.floor(left_min / 60)), left_rest: String(left_min % 60) },
      ...{ service_on: isoDate(service_on), service_day: longDate(service_on) },
      ...{ trouble: trouble.words, part: trouble.part, what: damage.what, kind: damage.kind },
      ...{ cost: String(damage.cost), spelling: damage.spelling.source, road: world.road },
      ...{ date: isoDate(day), day: longDate(day), booking: world.booking },
      time: isRefused(turns, 'move_slot') ? world.free_slots[0]! : world.eta,
      ...(lorry === undefined ? {} : { other: lorry.plate }),
      ...(driver === undefined ? {} : { driver: driver.name, driver_id: driver.id }),
      ...(way === undefined ? {} : wayValues(way)),
      ...(desk === undefined ? {} : { desk }),
      ...(why === undefined ? {} : { why }),
    };
  }

  #message(outcome: Decided, turns: readonly Turn[]): FreeText {
    const { messages } = SAID[outcome.kind];
    return {
      wordings: GREETINGS.flatMap((greeting) => messages.map((message) => `${greeting}${message}`)),
      ...this.#facts(outcome, turns),
    };
  }

  #tell(outcome: Decided, turns: readonly Turn[], frames: readonly ((note: string) => string)[]): FreeText {
    const { notes } = SAID[outcome.kind];
    return { wordings: frames.flatMap((frame) => notes.map(frame)), ...this.#facts(outcome, turns) };
  }

  #facts(outcome: Decided, turns: readonly Turn[]): { values: Values; facts: Facts } {
    const values = this.#values(outcome, turns);
    const { needs, bars = [] } = SAID[outcome.kind];
    return {
      values,
      facts: {
        needs: needs.map((group) => group.map((spelling) => spell(spelling, values))),
        bars: bars.map((bar) => spell(bar, values) as RegExp),
      },
    };
  }
}

export const fleetDispatcher: HeldBackAgent = {
  name: 'fleet dispatcher',
  model: 'claude-sonnet-5',
  wire: 'messages',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    "{Let me|I'll} {check|look at} {the route|this|the vehicle}.",
    '{One moment, looking it up|Looking that up}.',
    '{Next|Now}: {what is possible|the details}.',
    'I have {what I need|the picture}{, going on|}.',
  ],
  aside_share: 0.3,
  names: [...PERSON_NAMES, ...CITIES, ...RECEIVERS, ...WAYS],
  start: (seed, kind) => new DispatcherRun(seed, kind),
};
