/**
 * The jobs of the catalogue editor: products, their faults, and the sheets that suppliers write of them in several forms.
 * Pure; bench process.
 */

import type { Prng } from '../../../../src/std/prng.ts';
import { makeId } from '../vocabulary.ts';
import { between, pick, shuffle } from '../wording.ts';
import {
  BRANDS,
  CATEGORIES,
  CHOICES,
  type Demand,
  MEASURES,
  MODELS,
  type Naming,
  SUPPLIERS,
} from './catalogue-categories.ts';

type Form = 'lines' | 'bullets' | 'wide' | 'long' | 'pipes';

/** An attribute of a product, as the sheet says it and as the catalogue wants it. */
export interface Fact {
  demand: Demand;
  label: string;
  /** Number and unit, or a word; null: the sheet does not have it. */
  says: string | null;
  value: string;
}

export interface Fault {
  is: 'contradiction' | 'missing' | 'limit';
  fact: Fact;
  /** The other value, in the sheet's description. */
  other: string;
}

interface Product {
  category: string;
  kind: string;
  brand: string;
  model: string;
  sku: string;
  ean: string;
  facts: readonly Fact[];
}

export interface Job {
  product: Product;
  fault: Fault | null;
  sheet_id: string;
  sheet: string;
  supplier: string;
  is_pasted: boolean;
  names_sku: boolean;
  /** The published attributes; null: the product is new. */
  old: Readonly<Record<string, string>> | null;
  trouble: 'pictures' | 'duplicate' | null;
  other_sku: string;
}

const namingOf = (name: string): Naming => MEASURES[name] ?? CHOICES[name]!;
/** Writes the name of an attribute as words. */
export const plain = (name: string): string => name.replaceAll('_', ' ');

/** Writes a measure in one of its units, as `1.5 kg`, or with a decimal comma. */
function sayMeasure(name: string, amount: number, unit: string, hasComma: boolean): string {
  const number = String(amount / MEASURES[name]!.units[unit]!);
  return `${hasComma ? number.replace('.', ',') : number} ${unit}`;
}

function makeAmount(prng: Prng, { name, low, high }: Demand): number {
  const { step } = MEASURES[name]!;
  return between(prng, Math.ceil(low! / step), Math.floor(high! / step)) * step;
}

function makeFact(prng: Prng, demand: Demand, hasComma: boolean, unitAt: number): Fact {
  const label = pick(prng, namingOf(demand.name).labels);
  const made = MEASURES[demand.name];
  if (made === undefined) {
    const { words } = CHOICES[demand.name]!;
    const value = pick(prng, demand.words!);
    const isPlain = demand.name !== 'origin' && prng.chance(0.5);
    return { demand, label, value, says: isPlain ? value : pick(prng, words[value]!) };
  }
  const amount = makeAmount(prng, demand);
  const unit = Object.keys(made.units)[unitAt]!;
  return {
    demand,
    label,
    value: String(amount / made.units[demand.unit!]!),
    says: sayMeasure(demand.name, amount, unit, hasComma),
  };
}

function makeProduct(prng: Prng, category: string, hasComma: boolean): Product {
  const { kinds, demands } = CATEGORIES[category]!;
  const brand = pick(prng, BRANDS);
  return {
    category,
    kind: pick(prng, kinds),
    brand,
    model: pick(prng, MODELS),
    sku: makeId(prng, `${brand.slice(0, 2).toUpperCase()}-`, 5),
    ean: makeId(prng, '40', 11),
    facts: demands
      .map((demand) => makeFact(prng, demand, hasComma, prng.below(2)))
      .map((fact) => (!fact.demand.is_required && prng.chance(0.25) ? { ...fact, says: null } : fact)),
  };
}

/** Puts a fault into the product. @returns the product and its fault */
function spoil(prng: Prng, product: Product, hasComma: boolean, is: Fault['is']): [Product, Fault] {
  const fits = ({ demand, says }: Fact): boolean => {
    if (is === 'missing') return demand.is_required;
    if (says === null || demand.name === 'dishwasher') return false;
    return is === 'contradiction' || demand.unit !== undefined;
  };
  const at = pick(
    prng,
    product.facts.flatMap((fact, i) => (fits(fact) ? [i] : [])),
  );
  const fact = product.facts[at]!;
  const { demand } = fact;
  let [next, other] = [fact, ''];
  if (is === 'missing') next = { ...fact, says: null };
  else if (is === 'limit') {
    const { units, step } = MEASURES[demand.name]!;
    const amount = Math.ceil((demand.high! * between(prng, 13, 110)) / 10 / step) * step;
    const unit = pick(prng, Object.keys(units));
    const value = String(amount / units[demand.unit!]!);
    next = { ...fact, value, says: sayMeasure(demand.name, amount, unit, hasComma) };
  } else
    for (let made = fact; made.value === fact.value; other = made.says!)
      made = makeFact(prng, demand, hasComma, prng.below(2));
  return [
    { ...product, facts: product.facts.with(at, next) },
    { is, fact: next, other },
  ];
}

/** Writes the description of a sheet, which repeats one or two attributes; the faulty one with its other value. */
function describe(prng: Prng, { brand, model, kind, facts }: Product, fault: Fault | null): string {
  const contradicted = fault?.is === 'contradiction' ? fault.fact.demand.name : null;
  const told = shuffle(prng, facts)
    .filter(({ says, demand }) => says !== null && demand.name !== 'dishwasher')
    .filter(({ demand }) => demand.name !== contradicted && demand.name !== fault?.fact.demand.name)
    .slice(0, between(prng, 0, 2))
    .map(({ demand, says }) => namingOf(demand.name).phrase.replace('<v>', says!));
  if (contradicted !== null)
    told.splice(prng.below(told.length + 1), 0, namingOf(contradicted).phrase.replace('<v>', fault!.other));
  const opening = pick(prng, [
    `The ${brand} ${model} is a ${kind} for every day.`,
    `${brand} ${model}, the ${kind} that lasts.`,
    `New in the range: the ${kind} ${model} by ${brand}.`,
  ]);
  return told.length === 0 ? opening : `${opening} It ${told.join(', ')}.`;
}

/** Fields that the catalogue does not have. */
function makeNoise(prng: Prng): [string, string][] {
  const all: [string, string][] = [
    ['Minimum order', `${between(prng, 2, 60)} pieces`],
    ['Customs code', makeId(prng, '85', 6)],
    ['Delivery time', `${between(prng, 3, 40)} days`],
    ['Carton, gross weight', `${between(prng, 6, 48)} kg`],
    ['Pieces per carton', String(between(prng, 2, 24))],
    ['Warranty', `${pick(prng, ['12', '24', '36'])} months`],
    ['Pallet height', `${between(prng, 90, 210)} cm`],
  ];
  return shuffle(prng, all).slice(0, between(prng, 1, 4));
}

const NOTHING = ['-', 'n/a', 'tbc'];

/** Writes a sheet in one of the forms. @param other another product of a sheet with several rows */
function writeSheet(prng: Prng, form: Form, product: Product, fault: Fault | null, other: Product): string {
  const { sku, ean, brand, model, kind, facts } = product;
  const text = describe(prng, product, fault);
  if (form === 'wide') return writeRows(prng, product, text, other);
  const noise = makeNoise(prng);
  if (form === 'bullets') {
    const bullets = facts.flatMap(({ demand, label, says }) =>
      says === null
        ? []
        : [
            demand.name === 'dishwasher'
              ? `${label}: ${says}`
              : namingOf(demand.name).phrase.replace('<v>', says),
          ],
    );
    return [
      `${brand} ${model} (${kind})`,
      `Article ${sku}, EAN ${ean}`,
      '',
      ...shuffle(prng, [...bullets, ...noise.map(([label, says]) => `${label.toLowerCase()}: ${says}`)]).map(
        (each) => `* ${each}`,
      ),
      '',
      text,
    ].join('\n');
  }
  const fields: [string, string][] = [
    ...([
      ['Article', sku],
      ['EAN', ean],
      ['Brand', brand],
      ['Model', model],
      ['Type', kind],
    ] as [string, string][]),
    ...shuffle(prng, [
      ...facts.flatMap(({ label, says }): [string, string][] =>
        says !== null ? [[label, says]] : prng.chance(0.5) ? [[label, pick(prng, NOTHING)]] : [],
      ),
      ...noise,
    ]),
    ['Description', text],
  ];
  if (form === 'lines') return fields.map(([label, says]) => `${label}: ${says}`).join('\n');
  if (form === 'pipes')
    return [
      '| Field | Value |',
      '|---|---|',
      ...fields.map(([label, says]) => `| ${label} | ${says} |`),
    ].join('\n');
  const rows = fields.map(([label, says]) => {
    const [, number, unit] = /^([\d.,]+) ([a-zA-Z]+)$/.exec(says) ?? [];
    return number === undefined ? `${label};${says};` : `${label};${number};${unit}`;
  });
  return ['field;value;unit', ...rows].join('\n');
}

/** Writes a table with a row for each of two products. */
function writeRows(prng: Prng, product: Product, text: string, other: Product): string {
  const fields = shuffle(
    prng,
    product.facts.map(({ demand, label }) => ({ name: demand.name, label })),
  );
  const header = ['sku', 'ean', 'brand', 'model', 'type', ...fields.map(({ label }) => label), 'description'];
  const row = ({ sku, ean, brand, model, kind, facts }: Product, description: string): string[] => [
    ...[sku, ean, brand, model, kind],
    ...fields.map(({ name }) => facts.find(({ demand }) => demand.name === name)!.says ?? ''),
    description,
  ];
  const rows = shuffle(prng, [row(product, text), row(other, describe(prng, other, null))]);
  return [header, ...rows].map((cells) => cells.map((cell) => `"${cell}"`).join(',')).join('\n');
}

/** Draws a sheet to edit. @param faults one of these is in the product; null: none */
export function makeJob(prng: Prng, faults: readonly (Fault['is'] | null)[]): Job {
  const hasComma = prng.chance(0.35);
  const category = pick(prng, Object.keys(CATEGORIES));
  const drawn = makeProduct(prng, category, hasComma);
  const is = pick(prng, faults);
  const [product, fault] = is === null ? [drawn, null] : spoil(prng, drawn, hasComma, is);
  const form = pick(prng, ['lines', 'lines', 'bullets', 'bullets', 'wide', 'long', 'pipes'] as const);
  const isUpdate = prng.chance(0.3);
  const old = Object.fromEntries(
    product.facts.flatMap(({ demand, says, value }) => {
      if (says === null || demand === fault?.fact.demand || prng.chance(0.2)) return [];
      return [[demand.name, prng.chance(0.65) ? value : makeFact(prng, demand, hasComma, 0).value]];
    }),
  );
  const other = makeProduct(prng, category, hasComma);
  return {
    ...{ product, fault },
    sheet_id: makeId(prng, 'PS-', 5),
    sheet: writeSheet(prng, form, product, fault, other),
    supplier: pick(prng, SUPPLIERS),
    is_pasted: prng.chance(0.3),
    names_sku: form === 'wide' || prng.chance(0.3),
    old: isUpdate ? old : null,
    trouble: pick(prng, [
      null,
      null,
      null,
      null,
      null,
      null,
      'pictures',
      'pictures',
      isUpdate ? null : 'duplicate',
    ]),
    other_sku: other.sku,
  };
}
