/**
 * An editor of a shop's catalogue: it reads a supplier's product sheet in one of several forms, checks it with the rules
 * of the category, fills attributes in the catalogue's units and words, flags contradictions, and publishes the product
 * or returns the sheet. Chat completions, streamed. Pure; bench process.
 */

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
import { pick, word } from '../wording.ts';
import { BRANDS, CATEGORIES, limitOf, MODELS, SUPPLIERS, writeRules } from './catalogue-categories.ts';
import { type Fact, type Fault, type Job, makeJob, plain } from './catalogue-sheets.ts';

type Rule = 'draft' | 'heavy' | 'leave' | 'lenient' | 'check';

const TOOLS = [
  tool('open_sheet', "Reads a supplier's product sheet.", { sheet_id: 'string' }),
  tool('get_rules', 'Reads the rules of a category of the catalogue.', { category: 'string' }),
  tool('find_product', 'Looks a product up in the catalogue.', { sku: 'string' }),
  tool('create_product', 'Makes a product without attributes.', {
    sku: 'string',
    category: 'string',
    title: 'string',
  }),
  tool('set_attribute', 'Stores an attribute of a product; measures have a unit.', {
    sku: 'string',
    name: 'string',
    value: 'string',
    unit: 'string?',
  }),
  tool('flag_contradiction', 'Records that a sheet says two things about an attribute.', {
    sheet_id: 'string',
    attribute: 'string',
    note: 'string',
  }),
  tool('release_pictures', "Releases the supplier's pictures of a product.", { sku: 'string' }),
  tool('publish', 'Shows a product, or its new attributes, in the shop.', { sku: 'string' }),
  tool('return_sheet', 'Sends a sheet back: missing, contradiction, limit or duplicate.', {
    sheet_id: 'string',
    reason: 'string',
    message: 'string',
  }),
];

const TASKS = [
  '{Please put|Put} sheet <id> {from|of} <supplier> into the catalogue{, thanks|}.<only>',
  '<supplier> sent {sheet|product sheet} <id>. {Please take care of it.|Can you enter it?|It should go online today.}<only>',
  '{New|Fresh} sheet <id> ({by|from} <supplier>): {check and publish it|please check it and bring it into the shop}.<only>',
  '{Next in the queue|Next one}: <id>, <supplier>.<only>',
  '{We got|There is} a {new |}sheet {from|by} <supplier>, <id>. {Have a look|Look it over} and {publish what is fine|get it into the catalogue}.<only>',
  '<id> {is waiting|needs an editor}{, <supplier> has asked twice already|}.<only>',
];

const RULE_WORDS: Readonly<Record<Rule, readonly string[]>> = {
  draft: [
    'Publish nothing today: the shop is frozen, so leave products unpublished.',
    'You may enter everything, but you must not publish until the sale is over.',
  ],
  heavy: [
    'Do not publish anything heavier than <limit> kg for now, only enter it: the carrier is on strike.',
    'Products of more than <limit> kg are entered but stay unpublished this week.',
  ],
  leave: [
    'Leave the attribute <name> alone for now, the list of its values is under revision.',
    'Do not set <name> this week.',
  ],
  lenient: [
    'This week a contradiction does not send a sheet back: flag it, leave the attribute empty and publish.',
    'Until Friday you may publish in spite of contradictions; flag them and leave the attribute out.',
  ],
  check: [
    'Only check it and tell me whether it could be published; change nothing.',
    'Do not write anything into the catalogue and send nothing back yet: would it go through?',
  ],
};

/** Kilograms. */
const HEAVY_KG = 1;

/** Whether the rule decides a step of this job. @param name the attribute that the rule `leave` names */
function decides(rule: Rule, { product, fault, trouble, old }: Job, name: string | null): boolean {
  if (rule === 'check') return old === null;
  if (rule === 'lenient') return fault?.fact.demand.is_required === true && trouble === null;
  if (fault !== null || trouble !== null || old !== null) return false;
  if (rule === 'leave') return name !== null;
  const weight = product.facts.find(({ demand }) => demand.name === 'weight');
  return rule === 'draft' || (weight !== undefined && weight.says !== null && weightOf(weight) > HEAVY_KG);
}

function weightOf({ value, demand }: Fact): number {
  return demand.unit === 'kg' ? Number(value) : Number(value) / 1_000;
}

const FAULTS: readonly (Fault['is'] | null)[] = [
  ...[null, null, null, null, null, null, null, null, null],
  ...(['contradiction', 'contradiction', 'missing', 'missing', 'limit'] as const),
];

class EditorRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #job: Job;
  readonly #kind: RunKind;
  readonly #rule: Rule | null;
  /** The attribute that must not be set. */
  readonly #left: string | null;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;
  #hasPictures = false;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#rule =
      kind === 'restricted' ? pick(prng, ['draft', 'heavy', 'leave', 'lenient', 'check'] as const) : null;
    const faults = this.#rule === 'lenient' ? (['contradiction'] as const) : FAULTS;
    let [job, left] = [makeJob(prng, faults), null as string | null];
    for (;;) {
      const optional = job.product.facts.filter(({ demand, says }) => says !== null && !demand.is_required);
      left = this.#rule === 'leave' && optional.length > 0 ? pick(prng, optional).demand.name : null;
      if (this.#rule === null || decides(this.#rule, job, left)) break;
      job = makeJob(prng, faults);
    }
    this.#job = job;
    this.#left = left;
    this.#together = pick(prng, [0.85, 0.85, 0.15]);
    const rule =
      this.#rule === null
        ? ''
        : word(prng, pick(prng, RULE_WORDS[this.#rule]), { limit: String(HEAVY_KG), name: left ?? '' });
    const inSystem = rule !== '' && this.#rule !== 'check' && prng.chance(0.5);
    this.system = [
      `You edit the catalogue of a shop. Categories: ${Object.keys(CATEGORIES).join(', ')}.`,
      'Read the sheet, the rules of its category, and what the catalogue has of the product, before you write anything. Edit only the product that is asked for.',
      'A new product is created first. Then set each attribute of the rules that the sheet has, in the unit and the words of the rules; values are numbers without a unit, or words. Of a product that is published already, set only what differs, and publish again if anything did.',
      'If the sheet says two things about an attribute, flag it and do not set it. Return the sheet, and enter nothing, if a required attribute is missing or contradictory, or if a value is above its limit. If publishing fails, solve it where you can; a duplicate goes back to the supplier.',
      `End with one or two sentences about what you did.${inSystem ? `\n${rule}` : ''}`,
    ].join('\n');
    const { product, sheet_id, supplier, names_sku, is_pasted, sheet } = job;
    const asks = names_sku ? ` {Only|It is about} ${product.sku}{, please|}.` : '';
    const task = word(prng, pick(prng, TASKS).replace('<only>', asks), { id: sheet_id, supplier });
    const pasted = is_pasted ? `\n${word(prng, '{Here it is:|The sheet:|}', {})}\n${sheet}` : '';
    this.task = `${task}${rule === '' || inSystem ? '' : ` ${rule}`}${pasted}`;
  }

  perform({ name, input }: ToolCall): Result {
    const { sheet_id, sheet, supplier, product } = this.#job;
    switch (name) {
      case 'open_sheet':
        return input.sheet_id === sheet_id
          ? good(`Sheet ${sheet_id}, ${supplier}\n\n${sheet}`)
          : bad('error: no such sheet');
      case 'get_rules':
        return Object.hasOwn(CATEGORIES, String(input.category))
          ? good(writeRules(String(input.category)))
          : bad('error: no such category');
      case 'flag_contradiction':
        return input.sheet_id === sheet_id ? good('flagged') : bad('error: no such sheet');
      case 'return_sheet':
        return input.sheet_id === sheet_id
          ? good(`${sheet_id} returned to ${supplier}`)
          : bad('error: no such sheet');
    }
    if (name === 'find_product' && input.sku !== product.sku) return good({ found: false });
    if (input.sku !== product.sku) return bad('error: no such product');
    return this.#performOnProduct(name, input);
  }

  #performOnProduct(name: string, input: ToolCall['input']): Result {
    const { product, old, trouble, other_sku } = this.#job;
    const { sku, ean, category, brand, model } = product;
    switch (name) {
      case 'find_product':
        return old === null
          ? good({ found: false })
          : good({
              found: true,
              sku,
              state: 'published',
              category,
              title: `${brand} ${model}`,
              attributes: old,
            });
      case 'create_product':
        return good({ created: sku, state: 'draft' });
      case 'set_attribute':
        return good(
          `${String(input.name)} = ${String(input.value)}${input.unit === undefined ? '' : ` ${String(input.unit)}`}`,
        );
      case 'release_pictures':
        this.#hasPictures = true;
        return good({ released: 3 });
      case 'publish':
        if (trouble === 'duplicate')
          return bad(`error: EAN ${ean} belongs to ${other_sku}, which is published already`);
        if (trouble === 'pictures' && !this.#hasPictures)
          return bad(`error: the pictures of ${sku} are not released`);
        return good({ sku, state: 'published' });
      default:
        return bad(`error: no tool ${name}`);
    }
  }

  moves(turns: readonly Turn[]): Move[] {
    const { product, is_pasted, names_sku, sheet_id } = this.#job;
    const isRead = (name: string): boolean => callsOf(turns, name).length > 0;
    const find = { name: 'find_product', input: { sku: product.sku } };
    const finds = isRead('find_product') ? [] : [find];
    if (!is_pasted && !isRead('open_sheet')) {
      const open = { name: 'open_sheet', input: { sheet_id } };
      // The product can be looked up before the sheet is read, if the task names it.
      const early = names_sku ? finds : [];
      return [{ weight: 1, calls: [open] }, ...scaled(anyOf([open, ...early], 0.5), early.length * 0.2)];
    }
    const rules = isRead('get_rules') ? [] : [{ name: 'get_rules', input: { category: product.category } }];
    const looks = [...rules, ...finds];
    if (looks.length > 0) return anyOf(looks, this.#together);
    if (this.#rule === 'check') return ending(this.#tellCheck());
    return this.#isBlocked ? this.#sendBack(turns) : this.#enter(turns);
  }

  /** Whether the sheet must go back because of its fault. */
  get #isBlocked(): boolean {
    const { fault } = this.#job;
    if (fault === null) return false;
    if (fault.is === 'contradiction') return fault.fact.demand.is_required && this.#rule !== 'lenient';
    return true;
  }

  #sendBack(turns: readonly Turn[]): Move[] {
    const calls = [
      ...this.#flags(turns),
      ...(callsOf(turns, 'return_sheet').length > 0 ? [] : [this.#return(this.#job.fault!.is)]),
    ];
    return calls.length === 0
      ? ending(this.#tellReturned(this.#job.fault!.is))
      : anyOf(calls, this.#together);
  }

  #enter(turns: readonly Turn[]): Move[] {
    const { old, product } = this.#job;
    const { sku } = product;
    const flags = this.#flags(turns);
    if (old === null && callsOf(turns, 'create_product').length === 0)
      return anyOf([this.#create(), ...flags], this.#together / 2);
    const done = new Set(callsOf(turns, 'set_attribute').map(({ input }) => input.name));
    const sets = this.#wanted.filter(({ demand }) => !done.has(demand.name)).map((fact) => this.#set(fact));
    if (sets.length + flags.length > 0) return anyOf([...sets, ...flags], this.#together);
    if (this.#wanted.length === 0 && old !== null) return ending(this.#tellSame());
    if (this.#isHeld) return ending(this.#tellDraft());
    if (callsOf(turns, 'publish').length > 0) return ending(this.#tellPublished());
    const hasFailed = allCallsOf(turns, 'publish').some(({ is_error }) => is_error);
    if (!hasFailed) return only({ name: 'publish', input: { sku } });
    if (this.#job.trouble === 'duplicate')
      return callsOf(turns, 'return_sheet').length > 0
        ? ending(this.#tellReturned('duplicate'))
        : only(this.#return('duplicate'));
    return callsOf(turns, 'release_pictures').length > 0
      ? only({ name: 'publish', input: { sku } })
      : only({ name: 'release_pictures', input: { sku } });
  }

  /** Whether a sentence keeps the product unpublished. */
  get #isHeld(): boolean {
    return this.#rule === 'draft' || this.#rule === 'heavy';
  }

  /** The attributes that must be set. */
  get #wanted(): Fact[] {
    const { product, old, fault } = this.#job;
    return product.facts.filter(({ demand, says, value }) => {
      if (says === null || demand.name === this.#left) return false;
      if (fault?.is === 'contradiction' && fault.fact.demand === demand) return false;
      // In a changed run, the model leaves optional attributes alone.
      if (this.#kind === 'changed' && !demand.is_required) return false;
      return old?.[demand.name] !== value;
    });
  }

  #set({ demand, value }: Fact): WantedCall {
    const unit = demand.unit === undefined ? {} : { unit: demand.unit };
    return {
      name: 'set_attribute',
      input: { sku: this.#job.product.sku, name: demand.name, value, ...unit },
    };
  }

  #create(): WantedCall {
    const { sku, category, brand, model, kind } = this.#job.product;
    return {
      name: 'create_product',
      input: { sku, category },
      free: {
        title: {
          wordings: [
            '<brand> <model> {<kind>|- <kind>|(<kind>)}',
            '<kind> <brand> <model>',
            '<brand> <kind> <model>{, by <supplier>|}',
            '<model> <kind> {by|from} <brand>',
            '<brand> <model>{, <kind>|}',
          ],
          values: { brand, model, kind, supplier: this.#job.supplier },
          facts: { needs: [[brand], [model]] },
        },
      },
    };
  }

  #flags(turns: readonly Turn[]): WantedCall[] {
    const { fault, sheet_id } = this.#job;
    if (fault?.is !== 'contradiction' || callsOf(turns, 'flag_contradiction').length > 0) return [];
    const values = this.#values;
    return [
      {
        name: 'flag_contradiction',
        input: { sheet_id, attribute: fault.fact.demand.name },
        free: {
          note: {
            wordings: [
              '{The field|The sheet} says <says>, {the description|its description} <other>.',
              '<says> {against|versus} <other>{ in the description|}.',
              '{<label>|The attribute}: <says> or <other>? {The sheet has both.|}',
              'Description: <other>{;|, but} field "<label>": <says>.',
              '{Two values|Both values occur}: <says> and <other>{, please clarify|}.',
            ],
            values,
            facts: { needs: [spellings(values.says!), spellings(values.other!)] },
          },
        },
      },
    ];
  }

  get #values(): Record<string, string> {
    const { product, fault, sheet_id, supplier, other_sku } = this.#job;
    const { sku, ean, brand, model, category } = product;
    const wanted = this.#wanted;
    const demand = fault?.fact.demand;
    const limit = demand?.unit === undefined ? '' : limitOf(demand);
    return {
      ...{ sku, ean, brand, model, category, supplier, sheet: sheet_id, twin: other_sku, limit },
      count: String(wanted.length),
      names: wanted.map(({ demand: { name } }) => plain(name)).join(', '),
      name: demand === undefined ? '' : plain(demand.name),
      label: fault?.fact.label ?? '',
      unit: demand?.unit ?? '',
      says: fault?.fact.says ?? '',
      value: fault?.fact.value ?? '',
      other: fault?.other ?? '',
    };
  }

  /** The spellings of the faulty attribute. */
  get #faulty(): string[] {
    const { demand, label } = this.#job.fault!.fact;
    return [plain(demand.name), demand.name, label];
  }

  #return(reason: Fault['is'] | 'duplicate'): WantedCall {
    const wordings = {
      missing: [
        '{The sheet of <sku>|<sheet>} {has no|lacks the} <name>. {Please add it.|Please send it again with this value.}',
        '{Please add|Please tell us} the <name> of <brand> <model>{ (<sku>)|}.',
        '<name> {is missing|is not in the sheet}{, but it is required for <category>|}. {Please complete it.|}',
        '{For|In} <category> we need the <name>{; it is missing for <sku>|, please add it}.',
      ],
      contradiction: [
        '{The sheet|<sheet>} gives two values of the <name>: <says> and <other>. {Which one is right?|Please correct it.}',
        '<name> of <sku>: {<says> or <other>|is it <says> or <other>}? {Please send a corrected sheet.|}',
        '{Please check|Check} the <name>{ of <brand> <model>|}: {the field says|we read} <says>, the description <other>.',
        'We found <says> {as well as|and} <other> {for|as} the <name>. {Please clarify.|}',
      ],
      limit: [
        'The <name> of <says> {cannot be right|is above our limit}{ for <category>|}. {Please check.|Please correct it.}',
        '<name>: <says> {exceeds|is more than} {what <category> may have|the <limit> <unit> that we accept}. {Is that a typing error?|}',
        '{Please check|Please look at} the <name>{ of <sku>|}, <says> {seems too much|is too high}.',
      ],
      duplicate: [
        'EAN <ean> {belongs to|is used by} <twin> already. {Please check the number.|Please send the right one.}',
        '{The|Your} EAN <ean> of <sku> {is a duplicate|is in use}{ (<twin>)|}. {Please correct it.|}',
        '{We cannot publish <sku>|<sku> cannot be published}: <twin> has {the same EAN|EAN <ean>}.',
      ],
    }[reason];
    return {
      name: 'return_sheet',
      input: { sheet_id: this.#job.sheet_id, reason },
      free: {
        message: {
          wordings,
          values: this.#values,
          facts: {
            needs: reason === 'duplicate' ? [[/\bean\b/]] : [this.#faulty],
            bars: reason === 'missing' ? [/two values|duplicate/] : [/is missing|has no/],
          },
        },
      },
    };
  }

  #text(wordings: readonly string[], needs: Facts['needs'], bars: readonly RegExp[]): FreeText {
    return { wordings, values: this.#values, facts: { needs, bars } };
  }

  #tellPublished(): FreeText {
    const { product, fault, old } = this.#job;
    const skipped = fault === null ? '' : ' {Flagged|I flagged}: <name>{, left empty|} (<says> and <other>).';
    return this.#text(
      [
        `{Published|I published} <sku> {with|after setting} <count> attributes.${skipped}`,
        `<sku> (<brand> <model>) {is published|is live}{; set: <names>|}.${skipped}`,
        `${old === null ? '<brand> <model> {is in the shop now|went live}' : 'The {changes|new values} of <brand> <model> {are live|were published}'}{ as|:} <sku>{, <count> attributes|}.${skipped}`,
        `{Done|Finished}: <sku> published in <category>{, attributes set: <count>|}.${skipped}`,
        `{Sheet <sheet> is in the catalogue|<sheet> was fine}{ and|;} <sku> is {online|published} now{ (<names>)|}.${skipped}`,
        `I {entered|set} <names> {of|for} <sku>{ as the rules want it|} and published {it|the product}.${skipped}`,
        `<sku>: <count> attributes {set|entered}, {published|now live}.${skipped}`,
      ],
      [[product.sku], [/publish|\blive\b|online|in the shop/], ...(fault === null ? [] : [this.#faulty])],
      [/not published|unpublished|returned|sent back|draft|could be published|would be/],
    );
  }

  #tellDraft(): FreeText {
    const { sku } = this.#job.product;
    return this.#text(
      [
        '{Entered|I entered} <sku> with <count> attributes{; it is|, but it is} not published.',
        '<sku> (<brand> <model>) is complete{ with <names>|} {but stays unpublished|and waits as a draft}.',
        '<count> attributes of <sku> {are set|were entered}; {I did not publish it|it remains unpublished}.',
        '{As asked|As you wished}, <sku> {stays unpublished|is a draft only}{: <names> are set|}.',
        '{The data of <brand> <model>|Everything of <brand> <model>} is {in|entered}, and <sku> {remains a draft|was not published}.',
        'Draft of <sku> {ready|finished}{, attributes: <count>|}. {Not published.|It can be published later.}',
      ],
      [[sku], [/not published|unpublished|draft|not publish/]],
      [/\blive\b|is published|published now|online|returned/],
    );
  }

  #tellSame(): FreeText {
    const { sku } = this.#job.product;
    return this.#text(
      [
        '<sku> {needs no change|has all these values already}{, so I changed nothing|}.',
        '{Nothing to do|No differences}: <sku> {is up to date|matches the sheet}.',
        '{The catalogue|Our catalogue} {agrees|matches} with <sheet>{; nothing changed|, no change} for <sku>.',
        'Sheet <sheet> {has nothing new|brings nothing new} for <sku>.',
        '<sku> (<brand> <model>) {is as in the sheet|equals the sheet}; {nothing was set|no attribute was set}.',
        'No attribute of <sku> {differs|had to be changed}.',
      ],
      [
        [sku],
        [
          /no change|nothing|already|up to date|match|agree|as in the sheet|equals|no difference|no attribute/,
        ],
      ],
      [/i published|is live|returned/],
    );
  }

  #tellReturned(reason: Fault['is'] | 'duplicate'): FreeText {
    const { sheet_id, product, supplier } = this.#job;
    const causes = {
      missing: '{the <name> is missing|no <name>|it lacks the <name>}',
      contradiction: '{the <name> is contradictory|two values of the <name>|<name>: <says> and <other>}',
      limit: '{the <name> is too high|<name> of <says> is above the limit}',
      duplicate: '{its EAN <ean> is used by <twin>|EAN <ean> belongs to <twin>}',
    };
    const cause = causes[reason];
    return this.#text(
      [
        `{Returned|I returned} <sheet> to <supplier>: ${cause}.`,
        `<sheet> {went back|goes back} to {the supplier|<supplier>}: ${cause}.`,
        `{Sheet|The sheet} <sheet> {was|is} returned{ to <supplier>|}; ${cause}.`,
        `{Not published|Nothing published}: <sheet> (<sku>) {was sent back|is returned}, {reason|cause}: ${cause}.`,
        `{Since|As} ${cause}, {I sent <sheet> back|<sheet> is back with <supplier>}.`,
        `<sku> {cannot go online|is not published}: ${cause}. {Sheet <sheet>|<sheet>} {returned|sent back}.`,
      ],
      [
        [sheet_id, product.sku, supplier],
        [/return|\bback\b/],
        reason === 'duplicate' ? [/\bean\b|duplicate/] : this.#faulty,
      ],
      [/is live|is published|went live|published <|i published/],
    );
  }

  #tellCheck(): FreeText {
    const { fault, product } = this.#job;
    const { sku } = product;
    if (fault !== null && this.#isBlocked) {
      const { is } = fault;
      const cause = {
        missing: '{the <name> is missing|it has no <name>}',
        contradiction: '<name> is {both |}<says> and <other>',
        limit: 'the <name> of <says> is {too high|above the limit}',
      }[is];
      return this.#text(
        [
          `<sheet> {could not be published|cannot be published}: ${cause}.`,
          `No, <sku> {would go back|would have to go back}{ to <supplier>|}, {because|since} ${cause}.`,
          `{It would not pass|It would not go through}: ${cause} ({sheet <sheet>|<sku>}).`,
          `{I would return|I would send back} <sheet>{ to <supplier>|}: ${cause}.`,
          `<sku> is not {ready|fit}: ${cause}. {Nothing was changed.|}`,
          `{Not yet|Not like this}: ${cause}{ (<sku>)| in <sheet>}.`,
        ],
        [
          [/\bnot\b|cannot|would (?:have to )?go back|would (?:return|send)/],
          this.#faulty,
          [sku, this.#job.sheet_id],
        ],
        [/i returned|was returned|could be published|can be published/],
      );
    }
    return this.#text(
      [
        'Yes, <sku> could be published{: everything that is required is there|}.',
        '<sheet> {would go through|would pass}{; I changed nothing|}. {It is about <sku>.|}',
        '{The sheet|Sheet} <sheet> is {fine|complete}{ for <category>|}: <sku> can be published.',
        '<sku> (<brand> <model>) {is ready to be published|would be ready for the shop}.',
        '{All required attributes|All that <category> requires} {are|is} there, <sku> could go online.',
        '{It|<brand> <model>} {could|can} {go live|be published}{ as <sku>|} (<sheet>).',
      ],
      [[/could|would|\bcan\b|ready|complete|fine/], [sku, this.#job.sheet_id], ...(fault === null ? [] : [])],
      [/i published|is published|is live|went live|cannot|could not|would not|go back|not ready/],
    );
  }
}

/** The spellings of a value of a sheet; the decimal comma may be a point. */
function spellings(says: string): string[] {
  return [says, says.replace(/(\d),(\d)/, '$1.$2')];
}

export const catalogueEditor: HeldBackAgent = {
  name: 'catalogue editor',
  model: 'gpt-5.5',
  wire: 'chat_completions',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {read the sheet|see the rules|look at the catalogue first}.",
    '{The sheet is clear|I have the rules}{, now the attributes|}.',
    '{Entering|Setting} the {values|attributes}.',
    '{On to|Now} {the rest|the next step}.',
  ],
  aside_share: 0.3,
  names: [...BRANDS, ...MODELS, ...SUPPLIERS],
  start: (seed, kind) => new EditorRun(seed, kind),
};
