/**
 * Words that are not names: the vocabulary of English instructions, and words that forbid or demand in other languages.
 * A changing value in a prompt must not contain such a word, unless golden runs had the word at that place. Constants;
 * any thread.
 */

const WORDS = `
  a able about above accept access according account across act action active actual add address admin advise after again
  against agent ago agree ahead aim alert all allow almost alone along already also always among amount an and another
  answer any anybody anyone anything anyway apart apologise apologize appear append apply approve archive are area around
  as ask assistant assume at attach attempt automatic automatically available avoid away back bad balance ban bank base
  based basic be became because become been before begin behind being below best better between beyond big bill block
  book both brief briefly bring bronze build business but buy by call calm can cancel cancelled cannot care careful
  carefully carry case cash casual cause caution center central certain change channel charge chat cheap check choose city
  claim clean clear clearly client close closed code cold collect come command comment commit common company compare
  complete concise condition confidential confirm connect consider contact contain content continue control copy correct
  cost could count country create credit critical current currently customer daily data database date day deal debit
  decide decline deep default delay delete deliver deny depend deploy describe detail detailed did different direct
  directly disable discard disclose discount discuss do document does doing done double down draft drop due during each
  early easy edit either else email emergency empty enable end enough ensure enter entire equal error escalate especially
  even ever every everybody everyone everything exact exactly example except exclude excuse execute exempt expect expense
  explain export extra fail fair false far fast favor favour few fill final finally find fine finish first five fix flag
  follow following for forbid forbidden force forget form formal former forward four fraud free frequent friendly from
  full fully funny further future general get give given global go goes going gold gone good goods grant great group had
  half halt handle happen happy hard has have he head hello help helpful her here hide high him his hold home hour how
  however human if ignore immediate immediately import important in include including increase indeed inform information
  initial inside insist instead instruct instruction interest internal into invoice is issue it item its itself join just
  keep kind kindly know known language large last late later latest lead leave left legal less let level like likely limit
  limited line link list little live local lock log long longer look lose lot low lower machine mail main major make manage
  manager mandatory many mark match matter may maybe me mean medium meet member mention merge message might minimum minor
  minute miss mode modify money month more most move much multiple must my name narrow national near necessary need neither
  never new next nice night no nobody none nor normal not note nothing notice notify now nowhere number obey of off offer
  office often old omit on once one online only open optional or order other otherwise our out outside over override own
  page paid part partial pass past patient pause pay payment people per perform permit person personal phone place plain
  platinum please plus point polite politely possible post prefer premium prepare present previous price primary print
  prior priority private probably problem proceed process product production profit prohibit prohibited project promise
  prompt proper protect prove provide public purchase put quality queue quick quickly quiet quietly quit quote quota raise
  random rate rather read ready real really reason receive recent record reduce refer refund refunds refuse regard
  regardless region regular reject release remain remember remind remove rename repeat replace reply report request require
  required reset resolve respond response rest restart restore restrict result resume retry return reveal reverse review
  revoke right role rude rule rules run safe sale same save say scan schedule search second secret secure security see seek
  seem select sell send sent separate serious serve service session set settle several severe shall share she ship short
  should show shut side sign silent silver similar simple simply since single skip sleep slow slowly small so soft some
  somebody someone something soon sorry special specific speed stand standard start state status stay step still stock stop
  store strict strictly strong style subject submit such suggest sum summary support sure surely suspend switch system take
  talk task team tell ten terminate terms test text than thank thanks that the their them then there therefore these they
  thing think this those though three through thus ticket till time to today together token tomorrow tone too tool top
  total toward track trade train transfer translate treat true trust try turn twice two type under undo unless unlike
  unlimited unlock until up update upgrade upon urgent urgently us use used user usual usually value verbose verify very via
  view vip void wait waive want warn warning was waste way we week weekly well were what when whenever where whether which
  while who whole whom whose why will wire wise with withhold within without word work world would write wrong year yes yet
  you your yourself zero
  bitte immer nie niemals nicht kein keine keinen keiner nur nichts ohne alle alles sofort stets muss darf sollen soll
  jamais toujours ne pas rien aucun aucune sans seulement tout tous toute doit nunca siempre nada ningun ninguna solo sin
  todo todos debe mai sempre niente nessun nessuna solo senza tutto tutti nao sempre nenhum nenhuma sem tudo nooit altijd
  niet geen alleen zonder alles aldrig alltid inte ingen inga bara utan allt nigdy zawsze nie tylko bez wszystko
`;

const COMMON = new Set(WORDS.trim().split(/\s+/));
const ENDINGS = ["'s", '’s', 's', 'es', 'd', 'ed', 'ing', 'ly', 'er', 'ment', 'ments'];

/** Words that turn even a path or a hyphenated name into an instruction. */
const FORBIDDING = new Set(
  'never not no dont always must mustnt only ignore refuse instead without cannot stop nie niemals nicht jamais nunca'.split(
    ' ',
  ),
);

/** Words that follow a company's name as part of it. */
const COMPANY = new Set(
  (
    'bank banking group holding holdings trading imports exports services service systems solutions foods goods insurance ' +
    'airlines air logistics motors stores store shop market markets media energy health healthcare care security ' +
    'international national global partners capital software technologies technology networks network industries ' +
    'enterprises company corporation limited brothers sons hotels travel support press water power office products'
  ).split(' '),
);

/** Whether a word is one that companies have in their names. */
export function isCompanyWord(word: string): boolean {
  return COMPANY.has(word.toLowerCase());
}

/** Whether a word is an everyday word, in upper or lower case and with any common ending. */
export function isCommonWord(word: string): boolean {
  const lower = word.toLowerCase();
  if (COMMON.has(lower)) return true;
  return ENDINGS.some((ending) => {
    if (!lower.endsWith(ending)) return false;
    const stem = lower.slice(0, -ending.length);
    return stem.length > 1 && (COMMON.has(stem) || COMMON.has(`${stem}e`));
  });
}

/** Whether a compound (a path, `never-refund`) forbids or demands something. */
export function forbidsSomething(joined: string): boolean {
  return joined
    .toLowerCase()
    .split(/[^\p{L}]+/u)
    .some((part) => FORBIDDING.has(part));
}
