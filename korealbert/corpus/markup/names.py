"""Names that decide what a wiki link or page is: namespaces in Korean and English, language codes, sister projects, titles."""

from __future__ import annotations

from korealbert.documents.schema import Drop


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILE_NAMESPACES = frozenset({"파일", "그림", "이미지", "미디어", "file", "image", "media"})

_CATEGORY_NAMESPACES = frozenset({"분류", "category"})

UNSEEN_LINKS = dict.fromkeys(_FILE_NAMESPACES, "file") | dict.fromkeys(_CATEGORY_NAMESPACES, "category")
"""Prefix of a link that shows nothing in its place → the construct that it is."""

_OTHER_NAMESPACES = _words(
    """
    틀 위키백과 백 사용자 도움말 포털 들머리 모듈 미디어위키 초안 위키프로젝트 특수 토론
    template wikipedia project wp user help portal module mediawiki draft special talk
    """
)

_NON_ARTICLE_PREFIXES = (
    _FILE_NAMESPACES | _CATEGORY_NAMESPACES | _OTHER_NAMESPACES | {"나무위키", "휴지통", "파일휴지통", "투표", "더미"}
)
"""A title with one of these before its first colon is no article, whatever its namespace number says."""

SISTER_PROJECTS = _words(
    """
    b c commons d f m media mediawikiwiki meta mw n oldwikisource phab phabricator q s species tools toollabs v voy w wikibooks
    wikidata wikimedia wikinews wikipedia wikiquote wikisource wikispecies wikiversity wikivoyage wikt wiktionary wmf
    """
)

LANGUAGES = _words(
    """
    aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg
    bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce ceb ch cho
    chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff
    fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw
    he hi hif ho hr hsb ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp
    kcg kg kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo
    lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos mr mrj ms mt mus mwl my myv mzn na
    nah nan nap nb nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm
    pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rki rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco
    sd se sg sgs sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy ta tay tcy tdd te
    tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo
    wuu xal xh xmf yi yo yue za zea zgh zh zh-classical zh-min-nan zh-yue zu
    """
)
"""Prefixes of links to the same article in another language, as Wikipedia's editions are named."""


def other_namespace(title: str) -> Drop | None:
    """``namespace`` for a page that is no article by the prefix of its title, whatever its namespace number says."""
    prefix, colon, _ = title.partition(":")
    name = prefix.strip().lower()
    return Drop("namespace", f"title begins with {name}:") if colon and name in _NON_ARTICLE_PREFIXES else None


def no_prose(title: str) -> Drop | None:
    """``disambiguation`` or ``list_page`` for an article that only points to others."""
    if title.endswith("(동음이의)"):
        return Drop("disambiguation", "title")
    return Drop("list_page", "title") if title.endswith("의 목록") else None
