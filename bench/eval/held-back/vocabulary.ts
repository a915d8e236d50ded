/** Names, places, dates and amounts for the worlds of held-back agents. Pure; bench process. */

import type { Prng } from '../../../src/std/prng.ts';
import { between, pick } from './wording.ts';

const FIRST_NAMES =
  'Abena Adela Agnes Alba Amadou Anouk Arvid Beatriz Bjarne Bogdan Caspar Chiara Damian Daria Eamon Edda Elif Emeka Esme Fabian Farida Fergus Gesa Giulia Gwen Hamza Hanne Ilka Imran Ingrid Isolde Jarek Jolanda Kalle Katya Keiko Leandro Leonie Linnea Malik Marta Mateo Milou Nadia Nils Noor Oskar Paloma Pavel Quentin Ravi Renske Roisin Samir Saskia Selma Stellan Tamsin Thandi Ulla Viktor Wanda Xenia Yusuf Zora'.split(
    ' ',
  );
const LAST_NAMES =
  'Abbott Achterberg Adeyemi Albrecht Arslan Bakker Barros Beckett Bianchi Brandt Carvalho Chaudhry Corrigan Dahl Delgado Dragan Eklund Falk Ferreira Fontaine Galanis Gruber Haddad Halvorsen Hollis Iversen Jansen Kaminski Kessler Kovacs Laurent Lehtonen Mancini Marchetti Mbeki Mercer Nakamura Nielsen Obi Olsson Ortega Pereira Petrov Quist Rahman Reuter Rossi Sandoval Schreiber Silva Sorensen Szabo Tanaka Thibault Tremblay Ueda Vance Varga Vogt Wallace Weber Whitlock Yamada Zielinski'.split(
    ' ',
  );
export const CITIES =
  'Aberdeen Antwerp Bergen Bilbao Bologna Bremen Cork Coimbra Dresden Eindhoven Esbjerg Exeter Galway Gdansk Geneva Graz Haarlem Innsbruck Kassel Kaunas Leuven Lille Linz Lund Mainz Malaga Metz Namur Odense Oulu Padua Plzen Poznan Rennes Riga Rouen Salzburg Siena Tampere Tartu Toulon Trieste Tromso Turin Uppsala Vaasa Varna Vigo Wexford York'.split(
    ' ',
  );
/** First and last names, which a text must not mix up. */
export const PERSON_NAMES: readonly string[] = [...FIRST_NAMES, ...LAST_NAMES];
const STREETS = [
  ...['Alder Lane', 'Bridge Street', 'Canal Walk', 'Dockside', 'Elm Row', 'Foundry Road', 'Garden Terrace'],
  ...['Harbour View', 'Kiln Lane', 'Lower Mill', 'Market Hill', 'North Parade', 'Old Quay', 'Priory Close'],
];
const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
);
const WEEKDAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');
const DAY_MS = 86_400_000;

export interface Person {
  first: string;
  last: string;
  name: string;
  email: string;
}

export function makePerson(prng: Prng, domain: string): Person {
  const [first, last] = [pick(prng, FIRST_NAMES), pick(prng, LAST_NAMES)];
  return { first, last, name: `${first} ${last}`, email: `${first}.${last}@${domain}`.toLowerCase() };
}

export function makeAddress(prng: Prng): string {
  return `${between(prng, 1, 240)} ${pick(prng, STREETS)}, ${pick(prng, CITIES)}`;
}

/** Makes an id: a prefix and a number with this many digits, which does not begin with 0. */
export function makeId(prng: Prng, prefix: string, digits: number): string {
  return `${prefix}${between(prng, 10 ** (digits - 1), 10 ** digits - 1)}`;
}

/** Draws a day between January 2025 and December 2026, as milliseconds since 1970. */
export function makeDay(prng: Prng): number {
  return Date.UTC(between(prng, 2025, 2026), prng.below(12), between(prng, 1, 28));
}

export function addDays(day: number, days: number): number {
  return day + days * DAY_MS;
}

/** Writes a day as 2026-03-09. */
export function isoDate(day: number): string {
  return new Date(day).toISOString().slice(0, 10);
}

/** Writes a day as 9 March 2026. */
export function longDate(day: number): string {
  const date = new Date(day);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

export function weekday(day: number): string {
  return WEEKDAYS[new Date(day).getUTCDay()]!;
}

/** Writes 1234.5 as 1234.50. */
export function plainMoney(amount: number): string {
  return amount.toFixed(2);
}

/** Writes 1234.5 as 1,234.50. */
export function groupedMoney(amount: number): string {
  return amount.toFixed(2).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

export function roundCents(amount: number): number {
  return Math.round(amount * 100) / 100;
}
