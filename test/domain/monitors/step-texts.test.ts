/** The counts of a step's texts: the addon and its TypeScript fallback, compared on random texts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadTextAddon, type TextEngine } from '../../../native/text-engine.ts';
import { MEASURED_BYTES, StepFeatures } from '../../../src/domain/monitors/features.ts';
import { COUNT, StepTexts, textFallback } from '../../../src/domain/monitors/step-texts.ts';
import { TRIGGER, TRIGGER_WORDS, type TriggerName } from '../../../src/domain/monitors/triggers.ts';
import { drawsOf } from '../../long-parts.ts';

const addon = loadTextAddon();

/** Parts of texts: words that monitors know, endings that are removed, scripts without spaces, and trimmed text. */
const PIECES = [
  ...['the', 'Not', 'again', 'running', 'tested', 'boxes', 'class', 'processing12', 'ING', 'seeing', 'aing'],
  ...[
    'naïve',
    'ŻÓŁTY',
    '数据库连接失败',
    'かな',
    '한국어',
    '👩‍💻',
    '\ud800',
    '\udc00',
    '\0',
    '\u00a0',
    '\u2028',
    '\ufeff',
  ],
  ...[' ', '  ', '\n', '\t', '\r\n', '. ', '-', '_', ':', '12:30', '31 ms', '0xdead', '7x', '9s'],
  ...['123e4567-e89b-12d3-a456-426614174000', 'averyveryverylongword', 'w\u0130de', 'ſ', 'K'],
  ...Object.values(TRIGGER_WORDS).flat(),
];
const text = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.array(fc.constantFrom(...PIECES), { maxLength: 60 }).map((all) => all.join('')),
  },
  {
    weight: 2,
    arbitrary: fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }).map((all) => all.join(' ')),
  },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 200 }) },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 200 })
      .map((codes) => String.fromCharCode(...codes)),
  },
  // The maximum length of a text.
  {
    weight: 1,
    arbitrary: fc
      .tuple(
        fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 6_145 }),
      )
      .map(([all, length]) => all.join(' ').repeat(6_145).slice(0, length)),
  },
);

function measure(texts: StepTexts, [input, thought, observation]: readonly [string, string, string]) {
  const features = new StepFeatures();
  features.bytes.fill(0xaa);
  texts.measure(input, thought, observation, features);
  return { features: Buffer.from(features.bytes).toString('hex'), counts: [...texts.counts] };
}

const TRIGGERS_FROM = COUNT.own_triggers;

describe.skipIf(addon === null)('the addon and its fallback', () => {
  const native = new StepTexts(addon!);
  const fallback = new StepTexts(textFallback);

  it('return the same counts', () => {
    fc.assert(
      fc.property(fc.tuple(text, text, text), (texts) => {
        const measured = measure(native, texts);
        const other = measure(fallback, texts);
        expect(measured.features).toBe(other.features);
        expect(measured.counts.slice(0, TRIGGERS_FROM)).toEqual(other.counts.slice(0, TRIGGERS_FROM));
      }),
      drawsOf(2_000),
    );
  });

  it('return the same word counts for any number of words', () => {
    // More words than a set keeps, and more text than is read.
    for (const count of [0, 1, 19, 20, 21, 39, 40, 41, 159, 160, 161, 319, 320, 321, 1_000]) {
      const words = Array.from({ length: count }, (_, at) => (at * 7_919).toString(36))
        .join(' ')
        .slice(0, 6_145);
      const texts = [words, words, words] as const;
      const [measured, other] = [measure(native, texts), measure(fallback, texts)];
      expect(measured.features).toBe(other.features);
      expect(measured.counts.slice(0, TRIGGERS_FROM)).toEqual(other.counts.slice(0, TRIGGERS_FROM));
    }
  });

  it('find every word of every pattern, in any case, anywhere', () => {
    const filler = fc.constantFrom('', 'x', 'qq ', '…', '\n', 'zz zz zz ');
    for (const name of Object.keys(TRIGGER) as TriggerName[]) {
      for (const word of TRIGGER_WORDS[name]) {
        fc.assert(
          fc.property(filler, filler, fc.boolean(), (before, behind, isUpper) => {
            const text = before + (isUpper ? word.toUpperCase() : word) + behind;
            for (const [texts, place] of [
              [[text, '', ''], COUNT.own_triggers],
              [[text, '', ''], COUNT.input_triggers],
              [['', text, ''], COUNT.own_triggers],
              [['', '', text], COUNT.sign_triggers],
              [['', '', `${text}${'x'.repeat(2_000)}`], COUNT.sign_triggers],
              [['', '', `${'x'.repeat(2_000)}${text}`], COUNT.sign_triggers],
            ] as const) {
              expect(measure(native, texts).counts[place]! & TRIGGER[name], `${name}: ${word}`).toBe(
                TRIGGER[name],
              );
            }
          }),
          { numRuns: 6 },
        );
      }
    }
  });

  it('find no word in texts without one', () => {
    const texts = ['quick brown bug', 'jumps over', 'a lazy dog'] as const;
    expect(measure(native, texts).counts.slice(TRIGGERS_FROM)).toEqual([0, 0, 0]);
  });

  it('refuse tables of another size and texts of another length', () => {
    const features = new Uint8Array(MEASURED_BYTES);
    const counts = new Uint32Array(13);
    const tables = [new Uint32Array(3), new Uint32Array(1_280)] as const;
    const call = (...rest: Parameters<TextEngine['measureTexts']>) => addon!.measureTexts(...rest);
    expect(() => call('', '', '', ...tables, features, counts)).not.toThrow();
    expect(() => call('', '', '', new Uint32Array(2), tables[1], features, counts)).toThrow(RangeError);
    expect(() => call('', '', '', Uint32Array.of(7, 0, 0), tables[1], features, counts)).toThrow(RangeError);
    expect(() => call('', '', '', tables[0], new Uint32Array(1_279), features, counts)).toThrow(RangeError);
    expect(() => call('', '', '', ...tables, new Uint8Array(MEASURED_BYTES - 1), counts)).toThrow(RangeError);
    expect(() => call('', '', '', ...tables, features, new Uint32Array(12))).toThrow(RangeError);
    expect(() => call('x'.repeat(6_399), '', '', ...tables, features, counts)).toThrow(RangeError);
    expect(() => call(7 as never, '', '', ...tables, features, counts)).toThrow(TypeError);
  });
});
