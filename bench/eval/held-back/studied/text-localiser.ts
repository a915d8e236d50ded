/**
 * A translator of a shop's texts: it reads a file of strings, looks terms up, stores translations in its own words and
 * checks the file. Messages API, without streaming. Pure; bench process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
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
import { callsOf } from '../turns.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const LOCALES = { de: 'German', fr: 'French', es: 'Spanish' } as const;
type Locale = keyof typeof LOCALES;

/** The glossary's terms, before and after the brand changed them. */
const TERMS: Readonly<Record<string, Readonly<Record<Locale, readonly [string, string]>>>> = {
  cart: { de: ['Warenkorb', 'Einkaufskorb'], fr: ['panier', 'caddie'], es: ['carrito', 'cesto'] },
  voucher: { de: ['Gutschein', 'Rabattcode'], fr: ["bon d'achat", 'code promo'], es: ['cupón', 'vale'] },
};

/** Goods in English, German, French and Spanish. */
const NOUNS =
  'lamps Lampen lampes lámparas,chairs Stühle chaises sillas,tables Tische tables mesas,shelves Regale étagères estantes,carpets Teppiche tapis alfombras,curtains Vorhänge rideaux cortinas,cushions Kissen coussins cojines,mirrors Spiegel miroirs espejos,beds Betten lits camas,candles Kerzen bougies velas,vases Vasen vases jarrones,clocks Uhren horloges relojes,plates Teller assiettes platos,bowls Schüsseln bols cuencos,glasses Gläser verres vasos,towels Handtücher serviettes toallas,blankets Decken couvertures mantas,frames Rahmen cadres marcos,desks Schreibtische bureaux escritorios,benches Bänke bancs bancos,stools Hocker tabourets taburetes'
    .split(',')
    .map((line) => line.split(' ') as [string, string, string, string]);

interface Phrase {
  key: string;
  english: string;
  term?: string;
  /** By language: wordings, and what each of them must contain. */
  de: readonly [string, RegExp];
  fr: readonly [string, RegExp];
  es: readonly [string, RegExp];
}

const PHRASES: readonly Phrase[] = [
  {
    key: 'cart.empty',
    english: 'Your cart is empty',
    term: 'cart',
    de: ['{Ihr <term> ist {noch |}leer|Im <term> ist {noch |}nichts}', /leer|nichts/],
    fr: ["{Votre <term> est {encore |}vide|Il n'y a rien dans votre <term>}", /vide|rien/],
    es: ['{Su <term> está vacío|No hay nada en su <term>}', /vacío|nada/],
  },
  {
    key: 'cart.add',
    english: 'Add to cart',
    term: 'cart',
    de: ['{In den <term>{ legen|}|Zum <term> hinzufügen}', /in den|zum/],
    fr: ['{Ajouter au|Mettre dans le} <term>', /ajouter|mettre/],
    es: ['{Añadir|Agregar} al <term>', /añadir|agregar/],
  },
  {
    key: 'cart.count',
    english: '%d items in your cart',
    term: 'cart',
    de: ['%d {Artikel|Produkte} {in Ihrem|im} <term>', /artikel|produkte/],
    fr: ['%d {articles|produits} dans votre <term>', /articles|produits/],
    es: ['%d {artículos|productos} en su <term>', /artículos|productos/],
  },
  {
    key: 'checkout.invalid',
    english: 'This voucher is not valid',
    term: 'voucher',
    de: ['{Dieser|Der} <term> ist {ungültig|nicht gültig}', /ungültig|nicht/],
    fr: ["Ce <term> n'est pas {valable|valide}", /pas/],
    es: ['Este <term> no es válido{.|}', /no es/],
  },
  {
    key: 'checkout.applied',
    english: 'Voucher %s applied',
    term: 'voucher',
    de: ['<term> %s {{wurde |}eingelöst|{wurde |}angewendet}', /eingelöst|angewendet/],
    fr: ['<term> %s {appliqué|utilisé}', /appliqué|utilisé/],
    es: ['<term> %s {aplicado|canjeado}', /aplicado|canjeado/],
  },
  {
    key: 'checkout.failed',
    english: 'Payment failed',
    de: ['{Zahlung fehlgeschlagen|Die Zahlung ist fehlgeschlagen}', /zahlung/],
    fr: ['{Échec du paiement|Le paiement a échoué}', /paiement/],
    es: ['{El pago ha fallado|Error en el pago|Pago fallido}', /pago/],
  },
  {
    key: 'checkout.thanks',
    english: 'Thank you, %s!',
    de: ['{Danke|Vielen Dank}, %s!', /dank/],
    fr: ['Merci{ beaucoup|}, %s !', /merci/],
    es: ['{¡Gracias|¡Muchas gracias}, %s!', /gracias/],
  },
  {
    key: 'delivery.eta',
    english: 'Arrives on %s',
    de: ['{Kommt am %s an|Lieferung am %s|Zustellung am %s}', /am %s/],
    fr: ['{Arrive le|Livraison le} %s', /le %s/],
    es: ['{Llega el|Entrega el} %s', /el %s/],
  },
  {
    key: 'delivery.return',
    english: 'Return within %d days',
    de: [
      '{Rückgabe innerhalb von %d Tagen|Innerhalb von %d Tagen zurückgeben|%d Tage Rückgaberecht}',
      /tage/,
    ],
    fr: ['{Retour|Retours} sous %d jours', /jours/],
    es: ['{Devolución en|Devolver en un plazo de} %d días', /días/],
  },
  {
    key: 'account.password',
    english: 'Use at least %d characters',
    de: [
      '{Mindestens %d Zeichen verwenden|Bitte mindestens %d Zeichen|Verwenden Sie mindestens %d Zeichen}',
      /mindestens/,
    ],
    fr: ['{Au moins %d caractères|Utilisez au moins %d caractères}', /au moins/],
    es: ['{Al menos %d caracteres|Use al menos %d caracteres}', /al menos/],
  },
  {
    key: 'account.welcome',
    english: 'Welcome back, %s',
    de: ['{Willkommen zurück|Schön, dass Sie wieder da sind}, %s', /zurück|wieder/],
    fr: ['{Bon retour|Heureux de vous revoir}, %s', /retour|revoir/],
    es: ['{Bienvenido|Hola} de nuevo, %s', /de nuevo/],
  },
  {
    key: 'search.none',
    english: 'No results for %s',
    de: ['{Keine Ergebnisse|Keine Treffer} für %s', /keine/],
    fr: ['{Aucun résultat|Pas de résultats} pour %s', /résultat/],
    es: ['{Sin resultados|No hay resultados} para %s', /resultados/],
  },
  {
    key: 'search.reset',
    english: 'Reset filters',
    de: ['{Filter|Alle Filter} {zurücksetzen|löschen}', /filter/],
    fr: ['{Réinitialiser|Effacer} les filtres', /filtres/],
    es: ['{Restablecer|Borrar} {los |}filtros', /filtros/],
  },
  {
    key: 'stock.left',
    english: 'Only %d left',
    de: ['Nur noch %d {verfügbar|auf Lager|da}', /nur noch/],
    fr: ["{Plus que %d en stock|Il n'en reste que %d}", /que/],
    es: ['{Solo quedan|Quedan solo} %d', /solo/],
  },
  {
    key: 'shelf.weekly',
    english: 'New <noun> every week',
    de: ['{Jede Woche neue <noun>|Neue <noun> jede Woche}', /woche/],
    fr: ['{Chaque semaine, de nouveaux modèles : <noun>|<noun> : des nouveautés chaque semaine}', /semaine/],
    es: ['{Novedades cada semana: <noun>|<noun>: novedades cada semana}', /semana/],
  },
  {
    key: 'shelf.show',
    english: 'Show %d <noun>',
    de: ['%d <noun> {anzeigen|zeigen|ansehen}', /zeigen|ansehen/],
    fr: ['{Afficher|Voir} {les |}%d <noun>', /afficher|voir/],
    es: ['{Mostrar|Ver} %d <noun>', /mostrar|ver/],
  },
  {
    key: 'shelf.from',
    english: '<noun> from %s',
    de: ['<noun> {ab|schon ab} %s', /ab %s/],
    fr: ['<noun> {à partir de|dès} %s', /à partir de|dès/],
    es: ['<noun> {desde|a partir de} %s', /desde|a partir/],
  },
];

const TOOLS = [
  tool('read_strings', 'Reads the strings of a file with their translations.', {
    file: 'string',
    locale: 'string',
  }),
  tool('lookup_term', 'Looks up a term of the glossary.', { term: 'string', locale: 'string' }),
  tool('save_translation', 'Stores a translation of a string.', {
    file: 'string',
    locale: 'string',
    key: 'string',
    text: 'string',
  }),
  tool('check_file', 'Checks placeholders of all translations of a file.', {
    file: 'string',
    locale: 'string',
  }),
];

/** A string of the file. */
interface Entry {
  phrase: Phrase;
  key: string;
  noun: readonly [string, string, string, string];
  is_missing: boolean;
}

const TASKS = [
  '{Please translate|Translate} {what is missing|the missing strings} in <file> {into|to} <language>.',
  '<file> {has|still has} {gaps|untranslated strings} in <language>. {Please fill them.|Can you complete it?}',
  '{We ship|The release is} {tomorrow|on Friday}: {complete|finish} the <language> {texts|translation} of <file>{, please|}.',
  '<language>, <file>: {translate the rest|the rest is yours}.',
];

class LocaliserRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #locale: Locale;
  readonly #file: string;
  readonly #entries: readonly Entry[];
  readonly #shown: string;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;
  /** Whether a string is to be translated. A sentence of the prompt may exclude some strings. */
  readonly #accepts: (entry: Entry) => boolean;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#locale = pick(prng, ['de', 'fr', 'es'] as const);
    this.#file = `${pick(prng, ['web', 'app', 'kiosk', 'mail', 'partner'])}/${pick(prng, ['shop', 'basics', 'summer', 'checkout', 'landing', 'outlet'])}-${between(prng, 10, 99)}.properties`;
    this.#together = pick(prng, [0.85, 0.85, 0.1]);
    const entries = makeEntries(prng);
    const missing = entries.filter(({ is_missing }) => is_missing);
    const sections = [...new Set(missing.map(sectionOf))];
    const isRestricted = kind === 'restricted';
    const section = pick(prng, sections);
    const isOnly = prng.chance(0.5);
    this.#accepts = isRestricted ? (entry) => (sectionOf(entry) === section) === isOnly : () => true;
    const rule = !isRestricted
      ? ''
      : isOnly
        ? ` Only the strings of ${section}.* for now, leave the others empty.`
        : ` Do not touch ${section}.*: lawyers look at these first.`;
    this.#entries = entries;
    this.#shown = this.#show(prng);
    this.system = [
      'You translate the texts of a furniture shop. Customers are addressed formally. Use the terms of the glossary for cart and voucher, and keep placeholders as they are.',
      'Read the file, translate the strings that have no translation, check the file, and mend what the check finds. End with one sentence.',
    ].join('\n');
    this.task = `${word(prng, pick(prng, TASKS), { file: this.#file, language: LOCALES[this.#locale] })}${rule}`;
  }

  #show(prng: Prng): string {
    const lines = this.#entries.flatMap((entry) => {
      const english = word(prng, entry.phrase.english, { noun: entry.noun[0] });
      const { wordings, values } = this.#translation(entry, 0);
      return [
        `# en: ${english[0]!.toUpperCase()}${english.slice(1)}`,
        `${entry.key} =${entry.is_missing ? '' : ` ${word(prng, wordings[0]!, values)}`}`,
      ];
    });
    return [`# ${this.#file}, ${this.#locale}`, ...lines].join('\n');
  }

  /** Describes the right translations of an entry. @param version of the glossary */
  #translation({ phrase, noun }: Entry, version: number): FreeText {
    const [wordings, core] = phrase[this.#locale];
    const term = phrase.term === undefined ? '' : TERMS[phrase.term]![this.#locale][version]!;
    const translated = noun[['en', 'de', 'fr', 'es'].indexOf(this.#locale)]!;
    const placeholder = /%[sd]/.exec(phrase.english)?.[0];
    return {
      wordings: [wordings],
      values: { term, noun: translated },
      facts: {
        needs: [
          [core],
          ...(term === '' ? [] : [[term]]),
          ...(phrase.english.includes('<noun>') ? [[translated]] : []),
          ...(placeholder === undefined ? [] : [[new RegExp(placeholder)]]),
        ],
        bars: [/\b(your|the|with|for|failed|arrives|only|left|show|from|welcome|results)\b/],
      },
    };
  }

  get #version(): number {
    // In a changed run, the glossary has other terms.
    return this.#kind === 'changed' ? 1 : 0;
  }

  perform({ name, input }: ToolCall): Result {
    const { locale, term } = input;
    if (locale !== this.#locale) return bad(`no locale ${String(locale)}; there are: de, es, fr`);
    if (name === 'lookup_term') {
      const found = TERMS[String(term)]?.[this.#locale];
      return found === undefined ? bad('no such term') : good({ term, locale, use: found[this.#version] });
    }
    if (input.file !== this.#file) return bad('no such file');
    if (name === 'read_strings') return good(this.#shown);
    if (name === 'save_translation') {
      if (!this.#entries.some(({ key }) => key === input.key)) return bad('no such key');
      this.#saved.set(String(input.key), String(input.text));
      return good({ saved: input.key });
    }
    return good(this.#check(this.#saved));
  }

  readonly #saved = new Map<string, string>();

  #check(saved: ReadonlyMap<string, string>): string {
    const broken = this.#broken(saved).map(
      ({ key, phrase }) => `${key}: placeholder ${/%[sd]/.exec(phrase.english)?.[0] ?? ''} is missing`,
    );
    return [`${this.#entries.length} strings, ${broken.length} problems`, ...broken].join('\n');
  }

  #broken(saved: ReadonlyMap<string, string>): Entry[] {
    return this.#entries.filter(({ key, phrase }) => {
      const placeholder = /%[sd]/.exec(phrase.english)?.[0];
      const text = saved.get(key);
      return text !== undefined && placeholder !== undefined && !text.includes(placeholder);
    });
  }

  get #wanted(): Entry[] {
    return this.#entries.filter((entry) => entry.is_missing && this.#accepts(entry));
  }

  moves(turns: readonly Turn[]): Move[] {
    const place = { file: this.#file, locale: this.#locale };
    if (callsOf(turns, 'read_strings').length === 0) return only({ name: 'read_strings', input: place });
    const saved = new Map<string, string>();
    for (const { input } of callsOf(turns, 'save_translation'))
      saved.set(String(input.key), String(input.text));
    const missing = this.#wanted.filter(({ key }) => !saved.has(key));
    if (missing.length > 0) return this.#work(turns, missing);
    const checks = turns.flatMap(({ answer }, at) =>
      answer.calls.some(({ name }) => name === 'check_file') ? [at] : [],
    );
    const lastSave = turns.findLastIndex(({ answer }) =>
      answer.calls.some(({ name }) => name === 'save_translation'),
    );
    const broken = this.#broken(saved);
    const mend = broken.map((entry) => this.#save(entry));
    if ((checks.at(-1) ?? -1) < lastSave)
      return [
        { weight: 1, calls: [{ name: 'check_file', input: place }] },
        ...scaled(broken.length > 0 ? anyOf(mend, 1) : [], 0),
      ];
    return broken.length > 0 ? anyOf(mend, 0.9) : ending(this.#tell());
  }

  /** Looks terms up and stores translations. */
  #work(turns: readonly Turn[], missing: readonly Entry[]): Move[] {
    const known = new Set(callsOf(turns, 'lookup_term').map(({ input }) => input.term));
    const terms = [...new Set(missing.flatMap(({ phrase }) => phrase.term ?? []))].filter(
      (term) => !known.has(term),
    );
    const looks = terms.map((term) => ({ name: 'lookup_term', input: { term, locale: this.#locale } }));
    const ready = missing.filter(({ phrase }) => phrase.term === undefined || known.has(phrase.term));
    const saves = ready.map((entry) => this.#save(entry));
    const usual = looks.length > 0 ? anyOf(looks, 0.8) : anyOf(saves, this.#together);
    return [
      ...usual,
      ...scaled(anyOf([...looks, ...saves], 0), looks.length > 0 ? 0.08 : 0),
      ...this.#slips(ready),
    ];
  }

  #save(entry: Entry): WantedCall {
    return {
      name: 'save_translation',
      input: { file: this.#file, locale: this.#locale, key: entry.key },
      free: { text: this.#translation(entry, this.#version) },
    };
  }

  /** Lists the slip of the model: it forgets a placeholder. */
  #slips(ready: readonly Entry[]): Move[] {
    const entry = ready.find(({ phrase }) => phrase.english.includes('%'));
    if (entry === undefined) return [];
    const right = this.#translation(entry, this.#version);
    const text = {
      ...right,
      wordings: right.wordings.map((each) => each.replaceAll(/ ?%[sd] ?/g, ' ')),
      facts: null,
    };
    return [{ weight: 0.02, is_slip: true, calls: [{ ...this.#save(entry), free: { text } }] }];
  }

  #tell(): FreeText {
    const wanted = this.#wanted;
    const values = {
      count: String(wanted.length),
      file: this.#file,
      language: LOCALES[this.#locale],
      keys: wanted.map(({ key }) => key).join(', '),
    };
    return {
      wordings: [
        '{Translated|I translated} <count> strings of <file> into <language>{; the check found no problems|}.',
        '<file>: <count> {strings|texts} {added|translated} in <language>{ (<keys>)|}.',
        '<count> <language> {texts|translations} {stored|added} in <file>{, no problems|}.',
      ],
      values,
      facts: { needs: [[values.count], [this.#file]], bars: [/could not|nothing|no texts/] },
    };
  }
}

/** Strings of a file; some have no translation. */
function makeEntries(prng: Prng): Entry[] {
  const phrases = shuffle(prng, PHRASES).slice(0, between(prng, 10, PHRASES.length));
  const gaps = between(prng, 2, 5);
  // At least two sections have gaps.
  const other = phrases.findIndex(({ key }) => sectionOf({ key }) !== sectionOf(phrases[0]!));
  [phrases[1], phrases[other]] = [phrases[other]!, phrases[1]!];
  const entries = phrases.map((phrase, at) => {
    const noun = pick(prng, NOUNS);
    const key = phrase.english.includes('<noun>') ? `${phrase.key}.${noun[0]}` : phrase.key;
    return { phrase, key, noun, is_missing: at < gaps };
  });
  return entries.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

function sectionOf({ key }: { key: string }): string {
  return key.slice(0, key.indexOf('.'));
}

export const textLocaliser: HeldBackAgent = {
  name: 'text localiser',
  model: 'claude-haiku-5',
  wire: 'messages',
  is_streaming: false,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    '{Reading|I read} the file.',
    '{Now|Next} {the translations|the missing strings}.',
    "{Let me|I'll} check {it|the file}.",
  ],
  aside_share: 0.2,
  names: [],
  start: (seed, kind) => new LocaliserRun(seed, kind),
};
