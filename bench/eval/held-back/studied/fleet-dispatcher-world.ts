/**
 * The fleet dispatcher's world: vehicles, drivers, routes and ways, and which of them a case may use. Pure; bench
 * process.
 */

import type { Prng } from '../../../../src/std/prng.ts';
import type { RunKind } from '../held-back-agent.ts';
import { addDays, CITIES, makeDay, makeId, makePerson } from '../vocabulary.ts';
import { between, pick, shuffle } from '../wording.ts';

/** Minutes of driving that a driver keeps. */
export const RESERVE_MIN = 30;
/** Days on which the workshop is open, counted from today. */
const BACK_DAYS_MAX = 4;

export type Intent = 'ask' | 'minor' | 'major' | 'closed' | 'late' | 'damage' | 'extra';
export type Question = 'slot' | 'dock' | 'hours' | 'service';
export type Rule = 'bays' | 'way' | 'toll' | 'drivers' | 'reserve' | 'rented' | 'damage' | 'propose';

export interface Lorry {
  plate: string;
  type: string;
  payload_kg: number;
  height_m: number;
  state: string;
}

export interface Driver {
  id: string;
  name: string;
  state: string;
  left_min: number;
}

export interface Way {
  way: string;
  km: number;
  minutes: number;
  max_height_m: number;
  toll_eur: number;
}

interface Trouble {
  words: string;
  part: string;
  spelling: RegExp;
}

export interface World {
  intent: Intent;
  question: Question;
  rule: Rule | null;
  today: number;
  clock: string;
  driver: Driver;
  lorry: Lorry;
  home: string;
  back_on: number;
  service_on: number;
  route: {
    id: string;
    from: string;
    to: string;
    /** The depot next to the vehicle, or the depot that writes. */
    near: string;
    receiver: string;
    dock: number;
    pallets: number;
    kg: number;
    slot: string;
    left_min: number;
  };
  trouble: Trouble;
  damage: { words: string; what: string; spelling: RegExp; kind: string; cost: number };
  road: string;
  ways: Way[];
  banned_way: string;
  eta: string;
  free_slots: string[];
  is_dock_full: boolean;
  lorries: Lorry[];
  drivers: Driver[];
  /** Plates and drivers that other routes got since the list was made. */
  gone: Set<string>;
  is_bay_full: boolean;
  is_card_unread: boolean;
  booking: string;
}

const TYPES = ['box', 'curtainsider', 'reefer', 'flatbed'];
export const RECEIVERS = [
  ...['Olde Mill Foods', 'Brightwell Paper', 'Nordkapp Seafood', 'Castle Tiles', 'Verdant Garden Supply'],
  ...['Ironbridge Tools', 'Lakeside Dairy', 'Sundown Furniture', 'Parkway Pharma', 'Copperfield Cables'],
];
export const WAYS = [
  ...[
    'Karst Tunnel',
    'Hollow Pass',
    'Heron Bridge',
    'Salt Road',
    'Ridgeway',
    'Lower Valley',
    'Ferry Crossing',
  ],
  ...['Northern Bypass', 'Quarry Road', 'Coast Road', 'Beacon Hill', 'Monks Ford'],
];
const MINOR: readonly Trouble[] = [
  { words: 'the radio is dead', part: 'radio', spelling: /radio/ },
  { words: 'the left wiper smears', part: 'wiper', spelling: /wiper/ },
  { words: 'the heating in the cab blows cold air', part: 'heating', spelling: /heating/ },
  { words: "the passenger's window does not close any more", part: 'window', spelling: /window/ },
  { words: 'the seat has lost its cushion of air', part: 'seat', spelling: /seat/ },
];
const MAJOR: readonly Trouble[] = [
  { words: 'the brake pedal goes down to the floor', part: 'brakes', spelling: /brake/ },
  { words: 'the steering pulls hard to the right', part: 'steering', spelling: /steering/ },
  { words: 'a tyre of the second axle is losing its tread', part: 'tyre', spelling: /tyre/ },
  { words: 'coolant is running out under the cab', part: 'cooling', spelling: /cool/ },
];
const DAMAGES = [
  {
    words: 'two cartons fell over and are crushed',
    what: 'crushed cartons',
    spelling: /carton/,
    kind: 'load',
  },
  { words: 'a pallet got wet', what: 'a wet pallet', spelling: /pallet/, kind: 'load' },
  {
    words: 'I scraped the bumper on a bollard',
    what: 'a scraped bumper',
    spelling: /bumper/,
    kind: 'vehicle',
  },
  {
    words: 'a mirror broke off in a narrow gate',
    what: 'a broken mirror',
    spelling: /mirror/,
    kind: 'vehicle',
  },
  { words: "I touched a parked car's door", what: 'a dented car', spelling: /car\b/, kind: 'third party' },
  {
    words: "I knocked over a customer's fence",
    what: 'a broken fence',
    spelling: /fence/,
    kind: 'third party',
  },
];

const clockOf = (minutes: number): string =>
  `${String(Math.floor(minutes / 60) % 24).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
/** Writes 200 minutes as 3 h 20 min. */
export const span = (minutes: number): string => `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
const makePlate = (prng: Prng, start: string): string =>
  `${start}-${between(prng, 100, 999)}-${pick(prng, [...'BCDFGHKLMNPRSTVWXZ'])}`;
const makeName = (prng: Prng): string => makePerson(prng, 'x').name;

const INTENTS: readonly Intent[] = [
  ...(['ask', 'ask', 'minor', 'major', 'closed', 'closed'] as const),
  ...(['late', 'late', 'late', 'damage', 'extra'] as const),
];
const RULES: readonly Rule[] = ['bays', 'way', 'toll', 'drivers', 'reserve', 'rented', 'damage', 'propose'];

/** Chooses a task in which the rule decides a step. */
function intentUnder(prng: Prng, rule: Rule | null): Intent {
  switch (rule) {
    case null:
      return pick(prng, INTENTS);
    case 'bays':
      return pick(prng, ['minor', 'major'] as const);
    case 'way':
    case 'toll':
      return 'closed';
    case 'drivers':
    case 'reserve':
      return 'late';
    case 'rented':
      return pick(prng, ['extra', 'major'] as const);
    case 'damage':
      return 'damage';
    case 'propose':
      return pick(prng, ['minor', 'closed', 'extra'] as const);
  }
}

function makeLorries(prng: Prng, type: string, kg: number, rule: Rule | null): Lorry[] {
  const extras = shuffle(prng, [200, 900, 1_700, 2_600, 3_900, 5_100]);
  const make = (start: string, payload_kg: number, of = pick(prng, TYPES), state?: string): Lorry => ({
    plate: makePlate(prng, start),
    type: of,
    payload_kg,
    height_m: pick(prng, [3.2, 3.6, 3.8, 4]),
    state: state ?? pick(prng, ['free', 'free', 'in the workshop', `on ${makeId(prng, 'R-', 4)}`]),
  });
  const sure = rule === null ? [] : [make('HX', kg + extras[0]!, type, 'free')];
  return shuffle(prng, [
    ...sure,
    ...extras
      .slice(1, between(prng, 3, 5))
      .map((more) => make('HX', kg + more, pick(prng, [type, type, 'box']))),
    make('HX', kg - between(prng, 2, 9) * 100, type, 'free'),
    // A rented vehicle is always the smallest that suffices.
    ...(rule === 'rented' || prng.chance(0.4) ? [make('RX', kg + 100, type, 'free')] : []),
  ]);
}

function makeDrivers(prng: Prng, wanted_min: number, isSure: boolean): Driver[] {
  const more = shuffle(prng, [40, 75, 110, 160, 205, -20, -60, 15]).slice(0, between(prng, 2, 4));
  const make = (extra: number, state?: string): Driver => ({
    id: makeId(prng, 'D-', 3),
    name: makeName(prng),
    left_min: Math.max(20, wanted_min + extra),
    state:
      state ??
      pick(prng, [
        'ready',
        'ready',
        `on ${makeId(prng, 'R-', 4)}`,
        `resting until ${between(prng, 17, 22)}:00`,
      ]),
  });
  return shuffle(prng, [...more.map((extra) => make(extra)), ...(isSure ? [make(55, 'ready')] : [])]);
}

function makeWays(prng: Prng, least_min: number, rule: Rule | null): Way[] {
  const isForced = rule === 'way' || rule === 'toll' || rule === 'propose';
  const names = shuffle(prng, WAYS).slice(0, between(prng, 3, 4));
  const ways = names.map((way, at): Way => {
    const minutes = least_min + 22 * at + between(prng, 0, 18);
    const isOpen = isForced && at === 0;
    return {
      way,
      km: Math.round(minutes * 1.1) + between(prng, 0, 20),
      minutes,
      max_height_m: isOpen ? 4.6 : pick(prng, [3.4, 3.7, 4.2, 4.2, 4.6, 4.6]),
      toll_eur: rule === 'toll' && at === 0 ? between(prng, 9, 40) : pick(prng, [0, 0, between(prng, 6, 48)]),
    };
  });
  return shuffle(prng, ways);
}

/** The driving time that the driver has left. */
function makeHours(
  prng: Prng,
  { intent, rule, left_min }: { intent: Intent; rule: Rule | null; left_min: number },
) {
  if (rule === 'reserve') return left_min + between(prng, 1, 25);
  if (rule === 'drivers') return left_min - between(prng, 10, 60);
  if (intent === 'late')
    return prng.chance(0.55)
      ? left_min + RESERVE_MIN + between(prng, 5, 150)
      : left_min - between(prng, -20, 55);
  return left_min + RESERVE_MIN + (rule === null ? between(prng, 0, 90) : between(prng, 110, 160));
}

export function makeWorld(prng: Prng, kind: RunKind): World {
  const rule = kind === 'restricted' ? pick(prng, RULES) : null;
  const intent = intentUnder(prng, rule);
  const [from, to, near, home] = shuffle(prng, CITIES) as [string, string, string, string];
  const [today, left_min, kg] = [makeDay(prng), between(prng, 90, 300), between(prng, 20, 90) * 100];
  const [now, type] = [between(prng, 6 * 60, 13 * 60), pick(prng, TYPES)];
  const slot = now + left_min + between(prng, 20, 60);
  const eta = slot + between(prng, 6, 20) * 5;
  const route_id = makeId(prng, 'R-', 4);
  const lorry = {
    plate: makePlate(prng, 'HX'),
    type,
    payload_kg: kg + 1_200,
    height_m: pick(prng, [3.2, 3.6, 3.8, 4]),
    state: `on ${route_id}`,
  };
  const hours = makeHours(prng, { intent, rule, left_min });
  const ways = makeWays(prng, left_min - between(prng, 5, 60), rule);
  const trouble = pick(prng, intent === 'minor' ? MINOR : MAJOR);
  const damages = rule === 'damage' ? DAMAGES.filter(({ kind: of }) => of !== 'third party') : DAMAGES;
  const world: World = {
    ...{ intent, rule, today, lorry, home, trouble, ways },
    question: pick(prng, ['slot', 'dock', 'hours', 'hours', 'service'] as const),
    clock: clockOf(now),
    driver: { id: makeId(prng, 'D-', 3), name: makeName(prng), state: `on ${route_id}`, left_min: hours },
    back_on: addDays(today, between(prng, 1, BACK_DAYS_MAX)),
    service_on: addDays(today, between(prng, 12, 160)),
    route: {
      ...{ id: route_id, from, to, near, kg, left_min, slot: clockOf(slot) },
      receiver: pick(prng, RECEIVERS),
      dock: between(prng, 2, 48),
      pallets: Math.ceil(kg / 450),
    },
    damage: {
      ...pick(prng, damages),
      cost: rule === 'damage' ? between(prng, 6, 48) * 10 : between(prng, 6, 190) * 10,
    },
    road: `${pick(prng, ['A', 'E', 'N', 'B'])}${between(prng, 11, 98)}`,
    banned_way: ways.toSorted((a, b) => a.minutes - b.minutes)[0]!.way,
    eta: clockOf(eta),
    free_slots: [clockOf(eta + between(prng, 4, 9) * 5), clockOf(eta + between(prng, 12, 24) * 5)],
    is_dock_full: prng.chance(0.25),
    lorries: makeLorries(prng, type, kg, rule),
    drivers: makeDrivers(prng, left_min + RESERVE_MIN, rule !== null),
    gone: new Set(),
    is_bay_full: prng.chance(0.25),
    is_card_unread: kind !== 'restricted' && prng.chance(0.08),
    booking: makeId(prng, 'W', 5),
  };
  // In a restricted run, the first choice is free, so that its sentence decides a step.
  if (rule !== null) return world;
  const [lorries, drivers] = [rankLorries(world, []), rankDrivers(world, [])];
  if (lorries.length > 1 && prng.chance(0.2)) world.gone.add(lorries[0]!.plate);
  if (drivers.length > 1 && prng.chance(0.2)) world.gone.add(drivers[0]!.id);
  return world;
}

/** Lists the vehicles at the depot that the route may have, the best first. */
export function rankLorries({ lorries, lorry, route, rule }: World, failed: readonly unknown[]): Lorry[] {
  return lorries
    .filter(
      ({ plate, type, payload_kg, state }) =>
        state === 'free' &&
        type === lorry.type &&
        payload_kg >= route.kg &&
        (rule === 'rented' || !plate.startsWith('RX')) &&
        !failed.includes(plate),
    )
    .toSorted((a, b) => a.payload_kg - b.payload_kg);
}

/** Lists the drivers of the depot that the route may have, the best first. */
export function rankDrivers({ drivers, route }: World, failed: readonly unknown[]): Driver[] {
  return drivers
    .filter(
      ({ id, state, left_min }) =>
        state === 'ready' && left_min >= route.left_min + RESERVE_MIN && !failed.includes(id),
    )
    .toSorted((a, b) => b.left_min - a.left_min);
}

/** Lists the ways that the vehicle and the driver can take, the fastest first. */
export function rankWays({ ways, lorry, driver, rule, banned_way }: World): Way[] {
  return ways
    .filter(
      ({ way, minutes, max_height_m, toll_eur }) =>
        max_height_m >= lorry.height_m &&
        minutes + RESERVE_MIN <= driver.left_min &&
        !(rule === 'toll' && toll_eur > 0) &&
        !(rule === 'way' && way === banned_way),
    )
    .toSorted((a, b) => a.minutes - b.minutes);
}
