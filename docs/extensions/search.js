// What a page's words count in the search: of equal pages guides come first, generated ones last.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (/^(how-to|explanation|reference|three_machines|tutorial)/.test(page)) return score + 1;
    return page.startsWith("generated/gallery") ? score - 1 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
